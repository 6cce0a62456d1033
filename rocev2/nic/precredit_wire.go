// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/creditwire"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// What two engines send each other for pre-credit (docs/reference/wire-format.md): in the stamps
// of data and ACKs, and in messages of their own, which may be lost. A grant is sent
// again until the peer returned it; all else is repeated by a later message.

// onSend sets traffic class and credit of a packet, and omits T1 where it would mislead.
func (c *credits) onSend(e *engine, x *QP, d *dest, o *qp.Outbound, ahead bool) (omitT1 bool) {
	if x != nil && x.credit != nil {
		o.TOS = c.tclass(e, x, o, o.TOS)
		if p := d.credit; p.enabled {
			c.noteLoss(p, o)
			if o.Stamp != nil {
				c.mark(e, p, x, o, ahead)
			}
		}
	}
	return c.omitT1(d, o.TOS, e.now)
}

// noteLoss has onIteration report to a peer that it has missed a packet.
func (c *credits) noteLoss(p *creditPeer, o *qp.Outbound) {
	if o.Lost && !p.loss {
		p.loss = true
		c.losses = append(c.losses, p)
	}
}

// reportLosses reports the credit that was used, so that peers find what was lost.
func (c *credits) reportLosses(e *engine) {
	for i, p := range c.losses {
		p.loss, c.losses[i] = false, nil
		if !p.enabled {
			continue
		}
		if m, send := p.src.Loss(int64(e.now)); send {
			c.sendReturn(e, p, m)
		}
	}
	c.losses = c.losses[:0]
}

// endWaits lets queue pairs send that wait in a first flight although nothing is in flight, as
// after a queue pair has failed.
func (c *credits) endWaits(e *engine) {
	c.waits = false
	for _, p := range c.all {
		switch {
		case p.dest == nil || !p.src.Blocked():
		case p.dest.flight.Used() > 0:
			c.waits = true
		default:
			p.src.Idle()
			p.apply(e)
			c.again = true
		}
	}
}

// mark fills in the credit of a stamp.
func (c *credits) mark(e *engine, p *creditPeer, x *QP, o *qp.Outbound, ahead bool) {
	switch o.Opcode.Info().Operation {
	case rocev2.OperationSend, rocev2.OperationWrite:
		c.attachCredit(e, x, o, ahead)
		p.probe.leaves(x, o, e.now)
	case rocev2.OperationAck, rocev2.OperationAtomicAck:
		if k, ok := c.recv.DstScheduleCredit(int64(e.now), p.id, 0); ok {
			o.Stamp.Flags |= rocev2.StampCredit
			o.Stamp.Credit, o.Stamp.CreditSeq = k.Bytes, k.Seq
		}
		c.dirty = true
	}
}

// onReceived takes a packet of a peer. It was delivered at once: what arrives waits in no buffer
// but the socket's. fresh: the queue pair has taken it, for the first time.
func (c *credits) onReceived(e *engine, x *QP, pkt rocev2.Packet, m rxMeta, inFlight uint64, fresh bool) {
	p := x.dest.credit
	if !p.enabled {
		return
	}
	now := int64(e.now)
	k := precredit.Credit{Bytes: m.credit, Seq: m.creditSeq}
	says := m.flags&rocev2.StampCredit != 0
	switch info := pkt.Opcode().Info(); info.Operation {
	case rocev2.OperationAck, rocev2.OperationAtomicAck, rocev2.OperationReadResponse:
		rtt, _ := p.probe.answered(x, info.Operation, pkt.BTH().PSN(), e.now)
		p.src.Answer(now, &x.credit.Flow, precredit.Answer{
			Credit: k, HasCredit: says && info.Operation != rocev2.OperationReadResponse, RTTNs: int64(rtt),
			InFlight: inFlight, Acked: inFlight - min(p.dest.flight.Bytes(), inFlight), RateBps: p.dest.pacer.Rate(),
		})
		p.apply(e)
		c.markReady(p)
		c.watch(p)
	case rocev2.OperationSend, rocev2.OperationWrite:
		first := info.Position == rocev2.PosFirst || info.Position == rocev2.PosOnly
		if c.recv.Data(now, p.id, precredit.Arrival{Bytes: uint32(pkt.PayloadLen()), Credit: k, HasCredit: says, First: first, Fresh: fresh}) {
			c.dirty = true
		}
	}
}

// onControl takes a CREDIT_GRANT or CREDIT_RETURN.
func (c *credits) onControl(e *engine, pkt rocev2.Packet) {
	now := int64(e.now)
	p := c.peers[pkt.Src()]
	if p == nil || len(p.qps) == 0 || pkt.Dst() != p.qps[0].src {
		c.keepEarly(now, &pkt)
		c.count.ignored++
		return
	}
	b := pkt.CreditGrant()
	if !p.enabled && b != nil {
		c.onPeerGrant(e, p)
	}
	if !p.enabled {
		c.count.ignored++ // not known to understand, or no more
		return
	}
	if b != nil {
		g := creditwire.Grant(b)
		// The peer may have ignored earlier grants, before HELLO announced this host.
		if g.Open && c.recv.Share(p.id) == 0 {
			c.recv.NewFlow(now, p.id)
			c.dirty = true
		}
		c.onGrant(e, p, g)
		return
	}
	if b := pkt.CreditReturn(); b != nil {
		c.recv.Return(now, p.id, creditwire.Return(b))
		c.dirty = true
		return
	}
	c.count.ignored++
}

// watch has onIteration look when the sender's deadline has come.
func (c *credits) watch(p *creditPeer) {
	if at := p.src.Deadline(); at != 0 && (c.timer == 0 || at < c.timer) {
		c.timer = at
	}
}

// onIteration does what is due and sends grants and returns.
func (c *credits) onIteration(e *engine) {
	now := int64(e.now)
	c.again = false
	if c.timer != 0 && now >= c.timer {
		c.timer, c.again = 0, true
		for _, p := range c.all {
			if p.dest == nil {
				continue // turnOff has given up what it had
			}
			if m, send := p.src.Expire(now, p.dest.flight.Bytes()); send {
				c.sendReturn(e, p, m)
			}
			p.apply(e)
			c.watch(p)
		}
	}
	if c.waits {
		c.endWaits(e)
	}
	if len(c.losses) > 0 {
		c.reportLosses(e)
	}
	if c.pollAt != 0 && now >= c.pollAt {
		c.pollPeers(e)
	}
	if c.holdAt != 0 && now >= c.holdAt {
		c.endHolds(e)
	}
	if at := c.recv.Deadline(); at != 0 && now >= at {
		c.recv.Expire(now)
		c.dirty = true
	}
	if c.forgetAt != 0 && now >= c.forgetAt {
		c.forgetIdle(now)
	}
	if c.dirty {
		c.flush(e)
	}
}

// deadline is when onIteration has to run, 0 = only when something happens.
func (c *credits) deadline(now qp.Time) int64 {
	if c.dirty || c.again {
		return int64(now)
	}
	at := c.recv.Deadline()
	for _, other := range [...]int64{c.timer, c.pollAt, c.holdAt, c.forgetAt} {
		if at == 0 || other != 0 && other < at {
			at = other
		}
	}
	return at
}

// flush sends the receiver's grants.
func (c *credits) flush(e *engine) {
	c.dirty = false
	c.keepEpoch()
	for {
		to, g, ok := c.recv.Next(int64(e.now))
		if !ok {
			return
		}
		p := c.ids[to]
		if p == nil {
			continue // forgotten: no queue pair leads there
		}
		creditwire.PutGrant(&c.out, g)
		if c.send(e, p, &c.out) {
			c.count.grants++
		}
	}
}

func (c *credits) sendReturn(e *engine, p *creditPeer, m precredit.Return) {
	if m.Epoch != p.epoch {
		p.epoch, p.expired = m.Epoch, 0
	}
	c.count.returned += uint64(m.Void - p.expired)
	p.expired = m.Void
	creditwire.PutReturn(&c.out, m)
	if c.send(e, p, &c.out) {
		c.count.returns++
	}
}

// send sends o on the path of one of the peer's queue pairs. Its stamp has no
// echo: ingress does not read one there, and an echo counts once.
func (c *credits) send(e *engine, p *creditPeer, o *rocev2.Datagram) bool {
	if len(p.qps) == 0 {
		return false
	}
	x := p.qps[0]
	to := x.path.Current()
	s := p.dest.sock
	if to.Err != nil || s.xsk.Reserve(1) == 0 {
		return false
	}
	token, ok := e.tokenFor(p.dest, to.Src)
	if !ok {
		return false
	}
	frame := s.xsk.Frame()
	if frame == nil {
		return false
	}
	o.Src, o.Dst, o.TOS, o.TTL, o.SrcPort = to.Src, to.Dst, x.flow.TClass, x.flow.HopLimit, x.flow.port
	o.Stamp = &c.stamp
	c.stamp = rocev2.Stamp{Flags: rocev2.StampT1, Token: token, T1: uint64(int64(e.clock.now()) + e.config.ClockOffset)}
	if c.omitT1(p.dest, o.TOS, e.now) {
		c.stamp.Flags = 0
	}
	if _, err := o.Begin(frame[etherLen:], 0); err != nil {
		return false
	}
	copy(frame, to.Ether[:])
	s.xsk.Push(etherLen + o.Seal(frame[etherLen:]))
	s.pushed++
	e.count.txPackets++
	return true
}

func (c *credits) totals() creditTotals {
	s, count := c.recv.Stats(), c.count
	count.withheld, count.ramps = c.past.withheld, c.past.ramps
	for _, p := range c.all {
		of := p.src.Stats()
		count.withheld += of.Waits
		count.ramps += of.Ramps
	}
	return creditTotals{
		creditCounters: count, given: s.Given, drained: s.Drained,
		wasted: s.Void + s.Lost + s.Reclaimed, reclaimed: s.Reclaimed, outstanding: uint64(c.recv.Outstanding()),
	}
}
