// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"time"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// markReady has next serve a peer: its first flow may have pre-credit now, as a grant came or
// the flow has just become the first.
func (c *credits) markReady(p *creditPeer) {
	if !p.ready && p.src.Waits() {
		p.ready = true
		c.ready = append(c.ready, p)
	}
}

// next sends up to n packets that have pre-credit and returns how many. They bypass the
// queue and the pacer of their destination: a small flow must not wait for what
// large ones may send by their rate. The pacer counts them all the same, so that the
// rate holds: what is sent next waits the longer, pre-credit too when a bandwidth-delay
// product has left ahead of the rate. Else hosts that have nothing but small flows would have no
// rate at all.
func (c *credits) next(e *engine, n int) (sent int) {
	kept := c.ready[:0]
	for _, p := range c.ready {
		k, more := c.sendCredited(e, p, n-sent)
		if sent += k; more {
			kept = append(kept, p)
		} else {
			p.ready = false
		}
	}
	clear(c.ready[len(kept):])
	c.ready = kept
	return sent
}

// sendCredited is next for one peer. more: it could go on in another iteration.
func (c *credits) sendCredited(e *engine, p *creditPeer, n int) (sent int, more bool) {
	o := &e.out
	for tries := txTries; tries > 0 && p.enabled && p.dest != nil && p.dest.stamps; tries-- {
		flow := p.src.Next(int64(e.now), p.dest.aheadOfRate(e))
		if flow == nil {
			break // what waits is in the queue as well
		}
		x := flow.Data.(*QP)
		if x.q.SendQueued() == 0 { // it has failed, and must not block others
			p.src.End(flow)
			continue
		}
		if sent >= n {
			return sent, true
		}
		if !e.hasFrame(&x.address) {
			e.txFramesExhausted = true
			return sent, true
		}
		if p.src.WantsAck(int64(e.now), flow) {
			x.q.RequestAckNext()
		}
		p.dest.flight.BypassWindow(true)
		has := x.q.NextData(e.now, o)
		p.dest.flight.BypassWindow(false)
		if !has { // what it still has is sent without pre-credit
			p.src.Skip(flow)
			continue
		}
		o.Stamp = nil // until onSend
		size, to := e.send(&x.egress, o, true)
		to.consumeTokens(e, size)
		if o.Stamp == nil || o.Stamp.Flags&rocev2.StampCredit == 0 { // a copy, or what is no data
			p.src.Skip(flow)
		}
		sent++
		e.markDirty(x) // for its timer: it may not be served in the queue for long
	}
	return sent, false
}

// mayStart blocks large flows without pre-credit in the first flight. The feature enqueues them
// again when it ends (apply).
func (c *credits) mayStart(e *engine, x *QP) bool {
	p := x.dest.credit
	if !p.enabled {
		return true
	}
	if x.credit.held {
		return false
	}
	may, ask := p.src.MayStart(int64(e.now), &x.credit.Flow, p.dest.flight.Used() > 0)
	if ask {
		x.q.RequestAckNext()
	}
	if !may {
		c.waits = true
		c.watch(p)
	}
	return may
}

// aheadOfRate is how many bytes have left ahead of what the rate allows.
func (d *dest) aheadOfRate(e *engine) uint32 {
	if d.pacer.Rate() == 0 || !e.config.Paced {
		return 0
	}
	return precredit.BDP(d.pacer.Rate(), d.pacer.Next()-int64(e.now))
}

// tclass is the traffic class of a packet (S5.4): what a large flow sends, and a small
// one that goes on for longer than its first round trip, has the DSCP that switches
// serve last, if there is one. Within a queue pair packets move to that class at some
// point and back only when nothing is outstanding, so none overtakes an earlier one in
// switches that serve the other class first. In switches that share between the two it
// may: only queue pairs with SACK are marked.
func (c *credits) tclass(e *engine, x *QP, o *qp.Outbound, requested uint8) uint8 {
	f := x.credit
	switch o.Opcode.Info().Operation {
	case rocev2.OperationSend, rocev2.OperationWrite:
	case rocev2.OperationReadResponse:
		if p := o.Opcode.Info().Position; p == rocev2.PosFirst || p == rocev2.PosOnly {
			f.served = 0
		}
		return requested
	default:
		return requested
	}
	large := f.Begun() && f.Class() == precredit.Large || f.sent >= uint64(c.bdp)
	f.sent += uint64(o.PayloadLen)
	if c.large == 0 || !x.selective || !large {
		return requested
	}
	f.sent = max(f.sent, uint64(c.bdp)) // it stays so
	x.dest.largeAt = e.now
	const ecn = 3
	return c.large<<2 | requested&ecn
}

// omitT1 reports whether a packet's delay does not show the queue that the destination's rate
// fills: the packet passes the large ones. The policy would take the shortest delay for the
// queue's, and find none until packets are lost.
func (c *credits) omitT1(d *dest, tclass uint8, now qp.Time) bool {
	return c.large != 0 && d.largeAt != 0 && now-d.largeAt < largeWindow && tclass>>2 != c.large
}

// largeWindow is for how long after a large packet: two of the agent's.
const largeWindow = qp.Time(20 * time.Millisecond)

// attachCredit writes the credit that a packet of a flow consumes into its stamp. ahead: the
// packet is one that next sends; others consume none, nor does a copy of a packet.
func (c *credits) attachCredit(e *engine, x *QP, o *qp.Outbound, ahead bool) {
	n := uint32(o.PayloadLen)
	k, credited := x.dest.credit.src.Sent(int64(e.now), &x.credit.Flow, n, ahead, o.Again)
	if credited {
		o.Stamp.Flags |= rocev2.StampCredit
		o.Stamp.Credit, o.Stamp.CreditSeq = k.Bytes, k.Seq
		c.count.used += uint64(n)
	}
}

// quantum is the polling queue's of S5.6: larger than others' at first, and smaller the more
// was served.
func (c *credits) quantum(x *QP) int32 { return int32(c.poll.Turn(x.credit.served)) }

func (c *credits) onCharged(x *QP, n int) { x.credit.served += uint64(n) }
