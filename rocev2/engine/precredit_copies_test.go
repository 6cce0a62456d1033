// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A packet on pre-credit is counted once, also if it is kept behind a gap. Copies that the network
// makes do not take what is still in flight off the budget.
func TestPreCreditCopies(t *testing.T) {
	l := newLoopback(t, 1)
	x := l.connect(verbs.RC, rocev2.PMTU1024, 8)
	y := l.e.qps.Lookup(x.q.Attr().DestQPN)
	if err := y.q.Modify(verbs.Attr{Selective: true}, verbs.MaskSelective); err != nil {
		t.Fatal(err)
	}
	c := newCredits(l.e, PreCredit{Frames: 4096, LinkRate: 1e10})
	p, r := c.remember(y.dest.addr), c.end.Receiver
	p.dest = y.dest
	p.TurnOn()
	y.dest.credit, y.credit, y.hooked, l.e.hooks = p, &creditFlow{}, true, c
	r.NewFlow(1, p.ID)
	_, g, _ := r.Next(1)
	r.Return(1, p.ID, precredit.Return{Epoch: g.Epoch, Limit: g.Limit, Seq: g.Seq})

	const size = 1000
	first := y.q.Attr().RQPSN
	send := func(i int) {
		d := rocev2.Datagram{
			Src: y.dest.addr, Dst: y.src, Opcode: rocev2.RCWriteOnly, DestQP: y.num, PSN: first.Add(i),
			VA: l.region.VA(), RKey: l.region.RKey(), DMALen: size, Payload: make([]byte, size),
		}
		b, err := d.AppendTo([]byte{12: 8, 13: 0})
		if err != nil {
			t.Fatal(err)
		}
		l.e.rx.frame(b, Meta{Flags: rocev2.StampCredit, Proven: true, Credit: 4 * size, CreditSeq: g.Seq}, false)
	}
	for i, step := range []struct{ packet, delivered int }{{0, 1}, {0, 1}, {2, 2}, {2, 2}, {3, 3}, {1, 4}, {1, 4}, {3, 4}} {
		send(step.packet)
		if n := r.Stats().Drained; n != uint64(step.delivered*size) {
			t.Errorf("step %d: %d bytes delivered, want %d", i, n, step.delivered*size)
		}
	}
}
