// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
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
	synctest.Test(t, func(t *testing.T) {
		l := newLoopback(t, 1)
		x := l.connect(verbs.RC, rocev2.PMTU1024, 8)
		e, d := l.e, x.dest
		e.dests.applyEntry(d, &DestSync{Window: 5000})
		if w := d.flight.Window(); w != 5000 {
			t.Errorf("the window is %d, want 5000", w)
		}
		for range 8 {
			l.post(x, verbs.OpWrite, 4096)
		}
		e.tx.flushDirty()
		if sent := e.tx.transmit(); sent != 5 || !x.q.Waits() {
			t.Fatalf("%d packets have left and it waits: %v; want 5 and a queue pair that waits for room", sent, x.q.Waits())
		}
		e.dests.applyConfig(e.dests.rails[0], RuntimeConfig{Paced: true})
		if d.flight.Window() != 5000 || !x.q.Waits() {
			t.Error("the window has changed although nothing has")
		}
		e.dests.applyConfig(e.dests.rails[0], RuntimeConfig{})
		if d.flight.Window() != 0 || x.q.Waits() || d.drr.First().qp != x {
			t.Errorf("without an agent: window %d, waits %v", d.flight.Window(), x.q.Waits())
		}
		if e.dests.applyConfig(e.dests.rails[0], RuntimeConfig{Paced: true}); d.flight.Window() != 5000 {
			t.Error("the next agent's window does not hold")
		}
	})
}
