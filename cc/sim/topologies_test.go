// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim"
)

var link = sim.Link{Bps: 100e9, Delay: time.Microsecond}

// links sends one packet and returns how many links it took.
func links(t *testing.T, tp sim.Topology, src, dst int) int {
	t.Helper()
	n, err := sim.New(sim.Config{}, tp, &sim.Fixed{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := n.Add(sim.FlowSpec{Src: src, Dst: dst, Bytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	n.Run(time.Millisecond)
	if f.Slowdown() != 1 {
		t.Errorf("%s: %d to %d: slowdown %v alone", tp.Name, src, dst, f.Slowdown())
	}
	// Each link takes 1 µs and the 86.56 ns of the packet.
	return int((f.FCTNs() + 10) / 1086)
}

func TestWays(t *testing.T) {
	k4, err := sim.FatTree(4, link, link)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tp             sim.Topology
		src, dst, want int
	}{
		{sim.Star(4, link), 1, 3, 2},
		{sim.Dumbbell(3, link, link), 0, 3, 3},
		{sim.Dumbbell(3, link, link), 0, 2, 2},
		{sim.ParkingLot(3, link, link), 0, 1, 5},
		{sim.ParkingLot(3, link, link), 4, 5, 3},
		{sim.LeafSpine(3, 4, 2, link, link), 0, 3, 2},
		{sim.LeafSpine(3, 4, 2, link, link), 0, 11, 4},
		{k4, 0, 1, 2},  // same edge switch
		{k4, 0, 3, 4},  // same pod
		{k4, 0, 15, 6}, // through the core
	} {
		if got := links(t, c.tp, c.src, c.dst); got != c.want {
			t.Errorf("%s: %d to %d takes %d links, want %d", c.tp.Name, c.src, c.dst, got, c.want)
		}
	}
}

func TestFatTreeSizes(t *testing.T) {
	for k, hosts := range map[int]int{4: 16, 8: 128, 16: 1024, 26: 4394} {
		tp, err := sim.FatTree(k, link, link)
		if err != nil {
			t.Fatal(err)
		}
		if tp.Hosts != hosts || tp.Switches != 5*k*k/4 || len(tp.Wires) != 3*hosts {
			t.Errorf("k=%d: %d hosts, %d switches, %d wires", k, tp.Hosts, tp.Switches, len(tp.Wires))
		}
		ports := map[int]int{}
		for _, w := range tp.Wires {
			ports[w.A]++
			ports[w.B]++
		}
		for v := tp.Hosts; v < tp.Hosts+tp.Switches; v++ {
			if ports[v] != k {
				t.Fatalf("k=%d: switch %d has %d ports", k, v, ports[v])
			}
		}
	}
	if _, err := sim.FatTree(5, link, link); err == nil {
		t.Error("odd k was accepted")
	}
}
