// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/topo"
)

// BenchmarkPacketHop is the cost of one packet (data or ACK) crossing one link,
// in fat-trees of 54 to 4394 hosts in which every host sends one long flow with a
// window of one BDP. The cost should hardly depend on the number of hosts.
func BenchmarkPacketHop(b *testing.B) {
	for _, k := range []int{6, 8, 16, 26} {
		b.Run(fmt.Sprintf("hosts=%d", k*k*k/4), func(b *testing.B) { benchFatTree(b, k) })
	}
}

func benchFatTree(b *testing.B, k int) {
	t, err := topo.FatTree(k, gig100, gig100)
	if err != nil {
		b.Fatal(err)
	}
	n := build(b, sim.Config{Seed: 1}, t, &sim.Fixed{BDP: true})
	for h := range t.Hosts {
		add(b, n, sim.FlowSpec{Src: h, Dst: (h + t.Hosts/2 + 1) % t.Hosts, Bytes: 1 << 40})
	}
	n.Run(100 * time.Microsecond)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	from, start := n.PacketHops, cpuTime(b)
	step := time.Duration(max(200, 40_000_000/t.Hosts/1000)) // so that steps are alike in work
	for b.Loop() {
		n.Run(n.Now() + step)
	}
	hops := float64(n.PacketHops - from)
	spent := cpuTime(b) - start
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(spent.Nanoseconds())/hops, "cpu-ns/hop")
	b.ReportMetric(hops/spent.Seconds()/1e6, "Mhops/cpu-s")
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
