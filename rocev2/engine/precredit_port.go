// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2/creditwire"
)

// creditPeer is what precredit.Endpoint needs of the engine for one peer.
var _ precredit.Port = (*creditPeer)(nil)

// InFlight implements precredit.Port.
func (p *creditPeer) InFlight() (bytes uint64, busy bool) {
	f := &p.dest.flight
	return max(f.Bytes(), p.beforeTimeout), f.Busy()
}

// AheadOfRate implements precredit.Port.
func (p *creditPeer) AheadOfRate(now int64) uint32 {
	if e := p.dest.entry; e != nil {
		if e.Rate() == 0 {
			return 0
		}
		return precredit.BDP(e.Rate(), int64(e.Wait(p.c.e.now)))
	}
	pacer := &p.dest.pacer
	if pacer.Rate() == 0 || !p.c.e.dests.rails[0].config.Paced {
		return 0
	}
	return precredit.BDP(pacer.Rate(), pacer.Next()-now)
}

// Apply implements precredit.Port.
func (p *creditPeer) Apply(window uint32, released []*precredit.Flow) {
	p.dest.setRampWindow(p.c.e, uint64(window))
	for _, f := range released {
		p.c.e.tx.enqueue(&f.Data.(*QP).egress)
	}
}

// SendData implements precredit.Port. The packet bypasses the queue and the pacer of its destination: a
// small flow must not wait for what large ones may send by their rate. The pacer counts it all the same,
// so that the rate holds: what is sent next waits the longer.
func (p *creditPeer) SendData(now int64, f *precredit.Flow) precredit.Result {
	c, x := p.c, f.Data.(*QP)
	e := c.e
	c.tries--
	switch {
	case c.tries < 0:
		return precredit.ResultFull
	case x.q.SendQueued() == 0:
		return precredit.ResultFailed
	case c.room == 0:
		return precredit.ResultFull
	case !e.tx.hasFrame(&x.Address):
		e.tx.framesExhausted = true
		return precredit.ResultFull
	}
	if p.WantsAck(now, f) {
		x.q.RequestAckNext()
	}
	p.dest.flight.BypassWindow(true)
	has := x.q.NextData(e.now, &e.tx.out)
	p.dest.flight.BypassWindow(false)
	if !has {
		if x.sendDone.Load() != x.sendsDone() {
			e.tx.markDirty(x) // a local operation has completed
		}
		return precredit.ResultNone
	}
	size, to := e.tx.send(&x.egress, &e.tx.out, true)
	to.consumeTokens(e, size, true)
	c.room--
	e.tx.markDirty(x) // for its timer: it may not be served in the queue for long
	return precredit.ResultSent
}

// SendReturn implements precredit.Port.
func (p *creditPeer) SendReturn(m precredit.Return) {
	c := p.c
	creditwire.PutReturn(&c.out, m)
	if c.send(p, &c.out) {
		c.end.Counts.Returns++
	}
}
