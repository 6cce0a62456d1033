// SPDX-License-Identifier: Apache-2.0

package card

import (
	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/creditwire"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// markReady has next serve a node: its first flow may have pre-credit now.
func (c *credits) markReady(p *creditPeer) {
	if !p.ready && p.enabled && p.src.Waits() {
		p.ready = true
		c.ready = append(c.ready, p)
	}
}

// next writes the next frame of pre-credit to buf: a message to a node, or a packet that has
// pre-credit. n is 0 if there is none. Such a packet bypasses the pacer, so that a small flow does
// not wait for what large ones may send by their rate. The pacer counts it all the same: what is
// sent next waits the longer, pre-credit too when a bandwidth-delay product has left ahead of the
// rate.
func (c *credits) next(now qp.Time, buf []byte) (port, n int) {
	c.step(now)
	if port, n = c.nextMessage(now, buf); n > 0 {
		return port, n
	}
	for len(c.ready) > 0 {
		p := c.ready[0]
		if port, n = c.nextData(p, now, buf); n > 0 {
			return port, n
		}
		p.ready = false
		c.ready = c.ready[1:]
	}
	if c.closing {
		c.end()
	}
	return 0, 0
}

// nextMessage writes a CREDIT_RETURN or CREDIT_GRANT.
func (c *credits) nextMessage(now qp.Time, buf []byte) (port, n int) {
	for len(c.returns) > 0 {
		r := c.returns[0]
		c.returns = c.returns[1:]
		creditwire.PutReturn(&c.out, r.m)
		if port, n = c.d.control(r.p, &c.out, now, buf); n > 0 {
			c.count.returns++
			return port, n
		}
	}
	for {
		to, g, ok := c.recv.Next(int64(now))
		if !ok {
			return 0, 0
		}
		creditwire.PutGrant(&c.out, g)
		if port, n = c.d.control(c.peers[uint32(to)], &c.out, now, buf); n > 0 {
			c.count.grants++
			return port, n
		}
	}
}

// sendReturn puts a CREDIT_RETURN in the queue.
func (c *credits) sendReturn(p *creditPeer, m precredit.Return) {
	if m.Epoch != p.epoch {
		p.epoch, p.void = m.Epoch, 0
	}
	c.count.returned += uint64(m.Void - p.void)
	p.void = m.Void
	c.returns = append(c.returns, creditReturn{p, m})
}

// control writes a message to a node as a frame. Its stamp has no echo: an echo counts once, and
// the data plane reads none there. Length 0: it cannot be sent, and is taken for lost.
func (d *dataPath) control(p *creditPeer, o *rocev2.Datagram, now qp.Time, buf []byte) (i, n int) {
	i, ok := d.portOf(&p.path)
	if !ok {
		return 0, 0
	}
	from, at := d.port(i), d.time(now)
	o.Src, o.Dst, o.TOS, o.TTL = p.path.src, p.path.dst, p.path.tclass, p.path.hopLimit
	size := o.Len(0)
	d.stamp = rocev2.Stamp{Flags: rocev2.StampT1, Token: regs.DestOf(d.in, int(p.node)-1).TxToken(), T1: at}
	o.Stamp = &d.stamp
	if _, err := o.Begin(buf[etherLen:], 0); err != nil || !from.enable || size+rocev2.StampLen > int(from.mtu) {
		return 0, 0
	}
	return d.finish(i, &from, &p.path, o, size, buf, now)
}

// nextData writes the next packet to a node that has pre-credit. Length 0: there is none now.
func (c *credits) nextData(p *creditPeer, now qp.Time, buf []byte) (port, n int) {
	o := &c.d.out
	for p.enabled {
		flow := p.src.Next(int64(now), c.aheadOfRate(p, now))
		if flow == nil {
			return 0, 0 // what waits is in the pacer's queue as well
		}
		x := flow.Data.(*queuePair)
		if x.q.SendQueued() == 0 { // it has failed, and must not block others
			p.src.End(flow)
			continue
		}
		if p.src.WantsAck(int64(now), flow) {
			x.q.RequestAckNext()
		}
		p.flight.BypassWindow(true)
		has := x.q.NextData(now, o)
		p.flight.BypassWindow(false)
		if !has { // what it still has is sent without pre-credit
			p.src.Skip(flow)
			continue
		}
		o.Stamp = nil
		port, n = c.d.build(&x.egress, buf, now, kindCredited)
		if o.Stamp == nil || o.Stamp.Flags&rocev2.StampCredit == 0 { // a copy, or what is no data
			p.src.Skip(flow)
		}
		c.d.enqueue(x)
		if n > 0 {
			return port, n
		}
	}
	return 0, 0
}

// aheadOfRate is how many bytes have left to a node ahead of what its rate allows.
func (c *credits) aheadOfRate(p *creditPeer, now qp.Time) uint32 {
	e := regs.DestOf(c.d.in, int(p.node)-1)
	if e.RateBps() == 0 {
		return 0
	}
	return precredit.BDP(e.RateBps(), int64(e.NextTxNs()-c.d.time(now)))
}

// ahead is how many bytes the pacer of a node may owe.
func (d *dataPath) ahead(node uint32) uint64 {
	if d.credits == nil || d.credits.peers[node] == nil {
		return 0
	}
	return d.credits.peers[node].ahead
}

// charged notes a frame of n bytes that the pacer counts. idle: the pacer owed nothing before.
func (c *credits) charged(node uint32, n int, credited, idle bool) {
	p := c.peers[node]
	if p == nil {
		return
	}
	if idle {
		p.ahead = 0
	}
	if credited {
		p.ahead += uint64(n)
	}
}

// mayStart blocks large flows without pre-credit in the first flight. apply enqueues them again
// when it ends.
func (c *credits) mayStart(x *queuePair, now qp.Time) bool {
	p := x.credit.peer
	if !p.enabled {
		return true
	}
	may, ask := p.src.MayStart(int64(now), &x.credit.Flow, p.flight.Used() > 0)
	if ask {
		x.q.RequestAckNext()
	}
	if !may {
		c.waits = true
		c.watch(p)
	}
	return may
}

// served is called after a turn of a queue pair: it has sent a packet, or it has none (idle).
// Others that wait for room are next.
func (c *credits) served(x *queuePair, idle bool) {
	if p := x.credit.peer; idle || p.flight.Waiting() {
		x.q.EndService()
		c.unblock(p)
	}
}

// onSend writes credit into the option of a packet.
func (c *credits) onSend(x *queuePair, o *qp.Outbound, credited bool, now qp.Time) {
	c.shown.stale = true
	p := x.credit.peer
	if !p.enabled {
		return
	}
	if o.Lost && !p.loss {
		p.loss = true
		c.losses = append(c.losses, p)
	}
	if o.Stamp == nil {
		return
	}
	var k precredit.Credit
	var ok bool
	switch o.Opcode.Info().Operation {
	case rocev2.OperationSend, rocev2.OperationWrite:
		n := uint32(o.PayloadLen)
		if k, ok = p.src.Sent(int64(now), &x.credit.Flow, n, credited, o.Again); ok {
			c.count.used += uint64(n)
		}
	case rocev2.OperationAck, rocev2.OperationAtomicAck:
		k, ok = c.recv.DstScheduleCredit(int64(now), precredit.SenderID(p.node), 0)
	}
	if ok {
		o.Stamp.Flags |= rocev2.StampCredit
		o.Stamp.Credit, o.Stamp.CreditSeq = k.Bytes, k.Seq
	}
}

// reportLosses reports the credit that was used, so that nodes find what was lost.
func (c *credits) reportLosses(now qp.Time) {
	for _, p := range c.losses {
		p.loss = false
		if !p.enabled {
			continue
		}
		if m, send := p.src.Loss(int64(now)); send {
			c.sendReturn(p, m)
		}
	}
	c.losses = c.losses[:0]
}
