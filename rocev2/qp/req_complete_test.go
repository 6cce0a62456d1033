// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// SQD: a message that has begun continues, the next one does not begin. EventQPDrained is
// reported once, when nothing is outstanding (IBTA 10.3.1).
func TestDrain(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.post(verbs.OpWrite, 600, 0)
	x.post(verbs.OpWrite, 1, 0)
	if got := x.sends(1); len(got) != 1 {
		t.Fatal("nothing is sent")
	}
	modify := func(to verbs.State) {
		t.Helper()
		if err := x.q.Modify(verbs.Attr{State: to}, verbs.MaskState); err != nil {
			t.Fatal(err)
		}
	}
	modify(verbs.StateSQD)
	x.wantSent("1 2A")
	x.ack(1)
	x.nak(2, rocev2.NAKPSNSequence)
	x.wantSent("2A!")
	if len(x.events) != 0 || !x.q.Attr().Draining {
		t.Error("drained too early")
	}
	x.ack(2)
	if x.q.Attr().Draining {
		t.Error("nothing is outstanding, and Draining is set")
	}
	if !slices.Equal(x.events, []verbs.EventType{verbs.EventQPDrained}) {
		t.Errorf("events %v", x.events)
	}
	x.wantSent("")
	modify(verbs.StateRTS)
	x.wantSent("3A")
	x.ack(3)
	x.wantDone(0, verbs.StatusSuccess, verbs.StatusSuccess)
	x.events = nil
	modify(verbs.StateSQD)
	if !slices.Equal(x.events, []verbs.EventType{verbs.EventQPDrained}) {
		t.Errorf("idle: events %v", x.events)
	}
	if a := x.q.Attr(); a.SQPSN != psn(4) {
		t.Errorf("SQPSN %#x, want %#x", a.SQPSN, psn(4))
	}
}
