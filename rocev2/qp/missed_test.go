// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

// A READ that is asked for again shows the responder what of its data was lost: the part, if it is
// one of what was sent, and one packet if the requester goes back and drops what it has. What was
// not sent yet is not lost.
func TestResponderMissed(t *testing.T) {
	const packets = 8
	for _, c := range []struct {
		name      string
		sent      int // of the packets, before it asks again
		from, n   int
		selective bool
		again     int // packets sent again
		missed    uint16
		atFirst   uint16 // of these, shown by the first packet
	}{
		{"one", packets, 2, 1, false, 1, 1, 1},
		{"three in a row", packets, 2, 3, false, 3, 3, 3},
		{"all from there on", packets, 2, 6, false, 6, 1, 1},
		{"all from there on, half sent", 4, 2, 6, false, 2, 1, 1},
		{"what comes anyway", 4, 5, 2, false, 0, 0, 0},
		{"our engine, which has heard nothing", packets, 0, packets, true, 1, 0, 0},
		{"our engine, which misses three", packets, 2, 3, true, 3, 3, 3},
	} {
		x := newTarget(t, RC, func(_ *Config, a *Attr) { a.Selective = c.selective })
		x.next(read(dataBase, packets*256))
		for range c.sent {
			x.q.NextData(x.now, &x.answer)
		}
		d := read(dataBase+uint64(c.from)*256, uint32(c.n*256))
		d.PSN = psn(c.from)
		x.in(d)
		var again int
		var missed, first uint16
		for i := 0; x.q.NextData(x.now, &x.answer); i++ {
			if x.answer.Again {
				again++
			}
			if missed += x.answer.Missed; i == 0 {
				first = x.answer.Missed
			}
		}
		if again != c.again || missed != c.missed || first != c.atFirst {
			t.Errorf("%s: %d sent again, %d missed, %d of them at first, want %d, %d, %d", c.name, again, missed, first, c.again, c.missed, c.atFirst)
		}
	}
}

// A READ that its requester asks for again was answered, and the answer lost on its way here; a WRITE
// that goes again after a NAK was lost itself.
func TestRequesterMissed(t *testing.T) {
	x := newSource(t, RC)
	x.post(OpRead, 4*256, 0)
	x.sends(9)
	x.response(0, 0, 1, 4*256)
	x.response(0, 2, 4, 4*256) // 1 is missing
	if !x.q.NextData(x.now, &x.out) || !x.out.Again || !x.out.Lost || x.out.Missed != 0 {
		t.Errorf("READ request again: %+v", x.out)
	}
	x = newSource(t, RC)
	x.post(OpWrite, 4*256, 0)
	x.sends(9)
	x.nak(1, rocev2.NAKPSNSequence)
	if !x.q.NextData(x.now, &x.out) || !x.out.Again || x.out.Missed != 1 {
		t.Errorf("WRITE again: %+v", x.out)
	}
}
