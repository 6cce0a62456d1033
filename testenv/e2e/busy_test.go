// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// others measures how much of the machine is used by processes that are not this
// test: what is measured in real time on two cores says nothing while somebody
// else compiles on one of them.
type others struct {
	start        time.Time
	machine, own time.Duration
}

func watchOthers(t *testing.T) others {
	t.Helper()
	return others{time.Now(), machineTime(t), ownTime(t)}
}

// share is the others' part of all CPUs since then, 0 to 1.
func (o others) share(t *testing.T) float64 {
	t.Helper()
	used := machineTime(t) - o.machine - (ownTime(t) - o.own)
	return max(used.Seconds(), 0) / time.Since(o.start).Seconds() / float64(runtime.NumCPU())
}

// machineTime is what all processes have used, and the host of a virtual machine
// for others of its guests. Interrupts are left out: they are the traffic's.
func machineTime(t *testing.T) time.Duration {
	t.Helper()
	f, err := os.Open("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ticks int64
	fields := strings.Fields(line)
	for _, s := range append(fields[1:4:4], fields[8]) { // user, nice, system; steal
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatalf("/proc/stat: %v", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func ownTime(t *testing.T) (sum time.Duration) {
	t.Helper()
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}
