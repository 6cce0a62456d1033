// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/loader/device"
)

// Datagrams, shared receive queues, memory windows, READs, atomics and WRITEs at the same time in one process, by
// one device: each does what it does alone in an engine of this process.
func TestAllAtOnce(t *testing.T) {
	_, dir := serve(t, device.Config{})
	d := open(t, dir)
	for _, name := range []string{"datagrams", "shared receive queue", "window", "read and atomics", "write", "queues wrap"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scripts[name]
			alone := devices.Loopback(t)
			p := newCouple(t, alone, func(n int) ([]byte, error) { return make([]byte, n), nil }, s.init, 8192, s.srq)
			s.run(p)
			want := strings.Join(p.log, "\n")
			for round := range 20 {
				q := newCouple(t, d, d.Alloc, s.init, 8192, s.srq)
				s.run(q)
				if got := strings.Join(q.log, "\n"); got != want {
					t.Fatalf("round %d:\n%s\n\nalone:\n%s", round, got, want)
				}
			}
		})
	}
}

// Four processes have 1000 queue pairs with 64 WRITEs outstanding on each. All data arrives, and all of
// it is free again.
func TestManyQueuePairs(t *testing.T) {
	s, dir := serve(t, device.Config{})
	var all [2][2]*process
	for i := range all {
		for k := range all[i] {
			all[i][k] = start(t, "many", dir)
		}
	}
	for _, p := range all {
		var a [2]string
		for k := range p {
			a[k] = p[k].line("address ")
		}
		p[0].say(a[1])
		p[1].say(a[0])
	}
	for _, p := range all {
		both(p, "connected")
	}
	var sum uint64
	for _, p := range s.Status().Processes {
		sum += p.QPs
	}
	if sum != 4*manyQPs {
		t.Errorf("%d queue pairs", sum)
	}
	for range 3 {
		for _, step := range []string{"run", "check"} {
			for _, p := range all {
				p[0].say(step)
				p[1].say(step)
			}
			for _, p := range all {
				both(p, "done")
			}
		}
	}
	all[0][0].kill() // with the others connected
	for _, p := range all[1] {
		p.say("run")
	}
	both(all[1], "done")
	for _, p := range [...]*process{all[0][1], all[1][0], all[1][1]} {
		p.kill()
	}
	testkit.Eventually(t, "no process is left", func() bool { return len(s.Status().Processes) == 0 && s.Status().Counters["queue_pairs"] == 0 })
}

// manyAddress is what two processes with many queue pairs tell each other.
type manyAddress struct {
	QPNs []uint32
	RKey uint32
	VA   uint64
	Seed byte
}

func (a *manyAddress) String() string {
	b, _ := json.Marshal(a)
	return string(b)
}
