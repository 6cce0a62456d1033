// SPDX-License-Identifier: Apache-2.0

package engine

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
func (c *credits) onSend(x *QP, d *dest, o *qp.Outbound, ahead bool) (omitT1 bool) {
	if x != nil && x.credit != nil {
		o.TOS = c.tclass(x, o, o.TOS)
		if p := d.credit; p.Enabled() {
			creditwire.Stamp(c.now(), p.Peer, &x.credit.Flow, o, ahead)
			if op := o.Opcode.Info().Operation; o.Stamp != nil && (op == rocev2.OperationSend || op == rocev2.OperationWrite) {
				p.probe.leaves(x, o, c.e.now)
			}
		}
	}
	return c.omitT1(d, o.TOS, c.e.now)
}

// onControlOfEntry takes a message of a peer that has an entry, unless it is a grant to queue pairs. The program says
// whether the message is the peer's. Returns count also without queue pairs.
func (c *credits) onControlOfEntry(p *creditPeer, pkt *rocev2.Packet, m *Meta) (done bool) {
	switch r := pkt.CreditReturn(); {
	case !m.Proven || pkt.Dst() != p.lastSrc || r == nil && len(p.Flows()) == 0:
		c.end.Counts.Ignored++
	case r != nil:
		p.Return(c.now(), creditwire.Return(r))
	default:
		return false
	}
	return true
}

// onReceived takes a packet of a peer. It was delivered at once: what arrives waits in no buffer
// but the interface's. fresh: the queue pair has taken it, for the first time.
func (c *credits) onReceived(x *QP, pkt rocev2.Packet, m Meta, before inFlight, fresh bool) {
	p, now, rate := x.dest.credit, c.now(), x.dest.pacer.Rate()
	if !p.Enabled() {
		return
	}
	k := precredit.Credit{Bytes: m.Credit, Seq: m.CreditSeq}
	has := m.Flags&rocev2.StampCredit != 0
	switch info := pkt.Opcode().Info(); info.Operation {
	case rocev2.OperationAck, rocev2.OperationAtomicAck, rocev2.OperationReadResponse:
		rtt, _ := p.probe.answered(x, info.Operation, pkt.BTH().PSN(), c.e.now)
		if d := p.dest; d.entry != nil {
			rtt, rate = m.RTT, d.entry.Rate()
		}
		p.Answer(now, &x.credit.Flow, precredit.Answer{
			Credit: k, HasCredit: has && info.Operation != rocev2.OperationReadResponse, RTTNs: int64(rtt),
			InFlight: before.bytes - before.lost, RateBps: rate, // what it has refused is no part of what it acknowledges
		})
	case rocev2.OperationSend, rocev2.OperationWrite:
		first := info.Position == rocev2.PosFirst || info.Position == rocev2.PosOnly
		p.Data(now, precredit.Arrival{Bytes: uint32(pkt.PayloadLen()), Credit: k, HasCredit: has, First: first, Fresh: fresh})
	}
}

// onControl takes a CREDIT_GRANT or CREDIT_RETURN.
func (c *credits) onControl(pkt rocev2.Packet, m Meta) {
	p := c.peers[pkt.Src()]
	if p != nil && p.keep && c.onControlOfEntry(p, &pkt, &m) {
		return
	}
	if p == nil || len(p.Flows()) == 0 || !p.keep && pkt.Dst() != p.pair().src {
		c.keepEarly(c.now(), &pkt)
		c.end.Counts.Ignored++
		return
	}
	b := pkt.CreditGrant()
	if !p.Enabled() && b != nil {
		c.onPeerGrant(p)
	}
	r := pkt.CreditReturn()
	switch {
	case !p.Enabled():
		c.end.Counts.Ignored++ // not known to understand, or no more
	case b != nil:
		g := creditwire.Grant(b)
		if g.Open {
			p.Opened()
			c.end.TakeFlows(c.now())
		}
		c.onGrant(p, g)
	case r != nil:
		p.Return(c.now(), creditwire.Return(r))
	default:
		c.end.Counts.Ignored++
	}
}

// onIteration does what is due and sends grants and returns.
func (c *credits) onIteration() {
	now := c.now()
	c.again = c.end.Step(now)
	if c.pollAt != 0 && now >= c.pollAt {
		c.pollPeers()
	}
	if c.holdAt != 0 && now >= c.holdAt {
		c.endHolds()
	}
	if c.forgetAt != 0 && now >= c.forgetAt {
		c.forgetIdle(now)
	}
	if c.end.HasGrants() {
		c.flush()
	}
}

// deadline is when onIteration has to run, 0 = only when something happens.
func (c *credits) deadline(now qp.Time) int64 {
	if c.end.HasGrants() || c.again {
		return int64(now)
	}
	at := c.end.Deadline()
	for _, other := range [...]int64{c.pollAt, c.holdAt, c.forgetAt} {
		if at == 0 || other != 0 && other < at {
			at = other
		}
	}
	return at
}

// flush sends the receiver's grants.
func (c *credits) flush() {
	c.keepEpoch()
	for {
		peer, g, ok := c.end.NextGrant(c.now())
		if !ok {
			return
		}
		if peer == nil {
			continue // forgotten: no queue pair leads there
		}
		creditwire.PutGrant(&c.out, g)
		if c.send(peer.Port.(*creditPeer), &c.out) {
			c.end.Counts.Grants++
		}
	}
}

// pair is the queue pair whose path messages to the peer take.
func (p *creditPeer) pair() *QP { return p.Flows()[0].Data.(*QP) }

// send sends a control message, and reports whether it could be sent. One to a peer with an entry needs no queue pair.
func (c *credits) send(p *creditPeer, o *rocev2.Datagram) bool {
	if len(p.Flows()) == 0 && !p.keep {
		return false
	}
	e, a := c.e, &p.last
	if !p.keep {
		a = &p.pair().Address
	}
	to := a.Path.Current()
	if to.Err != nil {
		return false
	}
	o.Src, o.Dst, o.TOS, o.TTL, o.SrcPort = to.Src, to.Dst, a.Flow.TClass, a.Flow.HopLimit, a.Flow.port
	o.Stamp = &c.stamp
	port := to.portTo(p.dest)
	if to.Entry == nil && (!c.stampControl(p.dest, to, o) || !port.Room()) {
		return false
	}
	frame := port.Frame()
	if frame == nil {
		return false
	}
	if to.Entry != nil { // after Frame, as for data: the program notes that the frame has an option
		c.stamp = rocev2.Stamp{}
		if !to.Entry.Proof(e.now, &c.stamp) || o.Len(0)+rocev2.StampLen > to.MTU {
			return false
		}
	}
	if _, err := o.Begin(frame[etherLen:], 0); err != nil {
		return false
	}
	copy(frame, to.Ether[:])
	port.Push(etherLen + o.Seal(frame[etherLen:]))
	e.count.txPackets++
	return true
}

// stampControl fills in the option of a control message. False: there is no token for it.
func (c *credits) stampControl(d *dest, to *PathState, o *rocev2.Datagram) bool {
	token, ok := c.e.dests.tokenFor(d, to.Src)
	if !ok {
		return false
	}
	c.stamp = rocev2.Stamp{Flags: rocev2.StampT1, Token: token, T1: uint64(int64(c.e.host.Clock()) + c.e.dests.rails[0].config.ClockOffset)}
	if c.omitT1(d, o.TOS, c.e.now) {
		c.stamp.Flags = 0
	}
	return true
}
