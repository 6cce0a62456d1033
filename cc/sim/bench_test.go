// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cc/sim"
)

// BenchmarkPacketHop is the cost of one packet (data or ACK) crossing one link,
// in fat-trees of 54 to 4394 hosts in which every host sends one long flow with a
// window of one BDP, not all in step. The cost should hardly depend on the number of hosts. On a
// machine with other work, the least of many short steps says what the simulator
// costs and the median what the neighbours make of it.
func BenchmarkPacketHop(b *testing.B) {
	for _, k := range []int{6, 8, 16, 26} {
		b.Run(fmt.Sprintf("hosts=%d", k*k*k/4), func(b *testing.B) { benchFatTree(b, k) })
	}
}

func benchFatTree(b *testing.B, k int) {
	t, err := sim.FatTree(k, gig100, gig100)
	if err != nil {
		b.Fatal(err)
	}
	n := build(b, sim.Config{Seed: 1}, t, &sim.Fixed{BDP: true})
	for h := range t.Hosts {
		add(b, n, sim.FlowSpec{Src: h, Dst: (h + t.Hosts/2 + 1) % t.Hosts, Bytes: 1 << 40, Start: time.Duration(h * 611 % 1000)})
	}
	n.Run(40 * time.Microsecond)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	step := 400 * time.Microsecond / time.Duration(t.Hosts) // about 50 000 hops
	var costs []float64
	for b.Loop() {
		from, start := n.PacketHops, cpuTime(b)
		n.Run(n.Now() + step)
		costs = append(costs, float64(cpuTime(b)-start)/float64(n.PacketHops-from))
	}
	slices.Sort(costs)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(costs[len(costs)/2], "median-cpu-ns/hop")
	b.ReportMetric(costs[0], "least-cpu-ns/hop")
	b.ReportMetric(1e3/costs[0], "most-Mhops/cpu-s")
}

// cpuTime is what this thread has used of a CPU: unlike the wall clock it does
// not count what others do on this machine.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
