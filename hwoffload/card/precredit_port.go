// SPDX-License-Identifier: Apache-2.0

package card

import (
	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// creditPeer is what precredit.Endpoint needs of the card for one node.
var _ precredit.Port = (*creditPeer)(nil)

// InFlight implements precredit.Port.
func (p *creditPeer) InFlight() (bytes uint64, busy bool) {
	return p.flight.Bytes(), p.flight.Used() > 0
}

// AheadOfRate implements precredit.Port.
func (p *creditPeer) AheadOfRate(now int64) uint32 {
	d := p.c.d
	e := regs.DestOf(d.in, int(p.ID)-1)
	if e.RateBps() == 0 {
		return 0
	}
	return precredit.BDP(e.RateBps(), int64(e.NextTxNs()-d.time(qp.Time(now))))
}

// Apply implements precredit.Port.
func (p *creditPeer) Apply(window uint32, released []*precredit.Flow) {
	p.flight.SetWindow(uint64(window))
	for _, f := range released {
		p.c.d.enqueue(f.Data.(*queuePair))
	}
	p.c.unblock(p)
}

// unblock enqueues the next queue pair that waits for room in the window or the in-flight limit
// of a node.
func (c *credits) unblock(p *creditPeer) {
	if q := p.flight.ServeNext(); q != nil {
		if x := c.d.qps[q.QPN()]; x != nil {
			c.d.enqueue(x)
		}
	}
}

// SendData implements precredit.Port. The packet bypasses the pacer, so that a small flow does not wait for
// what large ones may send by their rate. The pacer counts it all the same: what is sent next waits the
// longer.
func (p *creditPeer) SendData(now int64, f *precredit.Flow) precredit.Result {
	c, x, at := p.c, f.Data.(*queuePair), qp.Time(now)
	if x.q.SendQueued() == 0 {
		return precredit.ResultFailed
	}
	if p.WantsAck(now, f) {
		x.q.RequestAckNext()
	}
	p.flight.BypassWindow(true)
	has := x.q.NextData(at, &c.d.out)
	p.flight.BypassWindow(false)
	if !has {
		return precredit.ResultNone
	}
	port, n := c.d.build(&x.egress, c.frame.buf, at, kindCredited)
	c.d.enqueue(x)
	if n == 0 {
		return precredit.ResultSent
	}
	c.frame.port, c.frame.n = port, n
	return precredit.ResultLast
}

// SendReturn implements precredit.Port.
func (p *creditPeer) SendReturn(m precredit.Return) {
	p.c.returns = append(p.c.returns, creditReturn{p, m})
}
