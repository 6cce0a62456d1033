// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// The lesser window that is set holds, and the policy's only while somebody looks after
// it.
func TestWindows(t *testing.T) {
	for _, c := range []struct{ policy, ramp, paced, unpaced uint64 }{
		{0, 0, 0, 0}, {9, 0, 9, 0}, {0, 7, 7, 7}, {9, 7, 7, 7}, {5, 7, 5, 7},
	} {
		w := windows{c.policy, c.ramp}
		if a, b := w.effective(true), w.effective(false); a != c.paced || b != c.unpaced {
			t.Errorf("policy %d, ramp %d: %d, and %d without an agent; want %d, %d", c.policy, c.ramp, a, b, c.paced, c.unpaced)
		}
	}
}

// What the table says comes in force with the report that brings it; a window ends with
// the agent's heartbeat, and queue pairs that waited for room go on.
func TestWindowFollowsTheAgent(t *testing.T) {
	e := bench(t)
	e.live.Paced = true
	d := &dest{addr: peer, refs: 1, flight: qp.NewFlight()}
	e.dests[d.addr] = d
	e.adopt(d, &DestSync{Window: 5000})
	if w := d.flight.Window(); w != 5000 {
		t.Errorf("the window is %d, want 5000", w)
	}
	x := &QP{typ: qp.RC, home: d, parked: true}
	d.parked = []*QP{x}
	e.goLive(Live{Paced: true})
	if d.flight.Window() != 5000 || !x.parked {
		t.Error("the window has changed although nothing has")
	}
	e.goLive(Live{})
	if d.flight.Window() != 0 || x.parked || d.first != x {
		t.Errorf("without an agent: window %d, parked %v", d.flight.Window(), x.parked)
	}
	if e.goLive(Live{Paced: true}); d.flight.Window() != 5000 {
		t.Error("the next agent's window does not hold")
	}
}
