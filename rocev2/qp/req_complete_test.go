// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

// SQD: a message that has begun continues, the next one does not begin. EventDrained is
// reported once, when nothing is outstanding (IBTA 10.3.1).
func TestDrain(t *testing.T) {
	x := newSource(t, RC)
	x.post(OpWrite, 600, 0)
	x.post(OpWrite, 1, 0)
	if got := x.sends(1); len(got) != 1 {
		t.Fatal("nothing is sent")
	}
	modify := func(to State) {
		t.Helper()
		if err := x.q.Modify(Attr{State: to}, MaskState); err != nil {
			t.Fatal(err)
		}
	}
	modify(SQD)
	x.wantSent("1 2A")
	x.ack(1)
	x.nak(2, rocev2.NAKPSNSequence)
	x.wantSent("2A!")
	if len(x.events) != 0 {
		t.Error("drained too early")
	}
	x.ack(2)
	if !slices.Equal(x.events, []Event{EventDrained}) {
		t.Errorf("events %v", x.events)
	}
	x.wantSent("")
	modify(RTS)
	x.wantSent("3A")
	x.ack(3)
	x.wantDone(0, Success, Success)
	x.events = nil
	modify(SQD)
	if !slices.Equal(x.events, []Event{EventDrained}) {
		t.Errorf("idle: events %v", x.events)
	}
	if a := x.q.Attr(); a.SQPSN != psn(4) {
		t.Errorf("SQPSN %#x, want %#x", a.SQPSN, psn(4))
	}
}
