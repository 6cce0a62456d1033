// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim"
)

var gig100 = sim.Link{Bps: 100e9, Delay: time.Microsecond}

func build(t testing.TB, c sim.Config, tp sim.Topology, s sim.Scheme) *sim.Net {
	t.Helper()
	n, err := sim.New(c, tp, s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func add(t testing.TB, n *sim.Net, s sim.FlowSpec) *sim.Flow {
	t.Helper()
	f, err := n.Add(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestOnePacket: 1000 bytes of payload are 1082 on the wire, 86.56 ns at 100 Gb/s.
// Three links of 1 µs and three times the packet are 3259.68 ns.
func TestOnePacket(t *testing.T) {
	n := build(t, sim.Config{}, sim.Dumbbell(1, gig100, gig100), &sim.Fixed{})
	f := add(t, n, sim.FlowSpec{Src: 0, Dst: 1, Bytes: 1000, Start: 5 * time.Microsecond})
	n.Run(time.Millisecond)
	if f.FCTNs() != 3259 {
		t.Errorf("flow completion time %d ns, want 3259", f.FCTNs())
	}
	if f.IdealNs() != 3259 {
		t.Errorf("ideal %d ns, want 3259", f.IdealNs())
	}
	if f.Slowdown() != 1 {
		t.Errorf("slowdown %v, want 1", f.Slowdown())
	}
}
