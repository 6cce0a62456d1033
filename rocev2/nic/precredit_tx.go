// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// markReady has next serve a peer: its first flow may have pre-credit now, as a grant came or
// the flow has just become the first.
func (c *credits) markReady(p *creditPeer) {
	if !p.ready && p.src.Len() > 0 {
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
		flow := p.src.Head()
		if flow == nil {
			break
		}
		x := flow.Data.(*QP)
		at := p.src.Ready(int64(e.now))
		if at < min(flow.Left(), x.credit.packet) || p.dest.aheadOfRate(e) > c.bdp {
			break // it is in the queue as well
		}
		if sent >= n {
			return sent, true
		}
		if !e.hasFrame(x) {
			e.txFramesExhausted = true
			return sent, true
		}
		// The first packet, for an ACK after one RTT, and the last for now.
		if !x.credit.asked || at < 2*x.credit.packet {
			x.credit.asked = true
			x.q.AskAck()
		}
		p.dest.flight.Pass(true)
		has := x.q.NextData(e.now, o)
		p.dest.flight.Pass(false)
		if !has { // what it still has is sent without pre-credit
			p.src.Drop(flow)
			continue
		}
		o.Stamp = nil // until onStamp
		size, to := e.send(x, o, true)
		to.consumeTokens(e, size)
		if o.Stamp == nil || o.Stamp.Flags&rocev2.StampCredit == 0 { // a copy, or what is no data
			p.src.Drop(flow)
		}
		sent++
		e.markDirty(x) // for its timer: it may not be served in the queue for long
	}
	return sent, false
}

// mayStart blocks large flows without pre-credit in the first flight.
func (c *credits) mayStart(e *engine, x *QP) bool {
	p := x.dest.credit
	if p.blockedInFirstFlight(x) {
		c.wait(e, p, x)
		return false
	}
	return true
}

// blockedInFirstFlight reports whether a queue pair's next packet waits until the peer has
// sent something: it is a large flow's, without pre-credit, and others are in flight.
func (p *creditPeer) blockedInFirstFlight(x *QP) bool {
	f := x.credit
	if !p.enabled || !f.begun || f.class != precredit.Large || !p.firstFlight {
		return false
	}
	if p.dest.flight.Used() > 0 {
		return true
	}
	x.q.AskAck() // the only one until its ACK
	return false
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
func (c *credits) tclass(e *engine, x *QP, o *qp.Outbound, own uint8) uint8 {
	f := x.credit
	switch o.Opcode.Info().Operation {
	case rocev2.OperationSend, rocev2.OperationWrite:
	case rocev2.OperationReadResponse:
		if p := o.Opcode.Info().Position; p == rocev2.PosFirst || p == rocev2.PosOnly {
			f.served = 0
		}
		return own
	default:
		return own
	}
	large := f.begun && f.class == precredit.Large || f.sent >= uint64(c.bdp)
	f.sent += uint64(o.PayloadLen)
	if c.large == 0 || !x.selective || !large {
		return own
	}
	f.sent = max(f.sent, uint64(c.bdp)) // it stays so
	x.dest.largeAt = e.now
	const ecn = 3
	return c.large<<2 | own&ecn
}

// omitT1 reports whether a packet's delay does not show the queue that the destination's rate
// fills: the packet passes the large ones. The policy would take the shortest delay for the
// queue's, and find none until packets are lost.
func (c *credits) omitT1(d *dest, tclass uint8, now qp.Time) bool {
	return c.large != 0 && d.largeAt != 0 && now-d.largeAt < largeWindow && tclass>>2 != c.large
}

// largeWindow is for how long after a large packet: two of the agent's.
const largeWindow = qp.Time(20 * time.Millisecond)

// wait keeps a queue pair until the first flight ends, but not for long: what is in flight may
// belong to a queue pair that is destroyed before its ACK.
func (c *credits) wait(e *engine, p *creditPeer, x *QP) {
	if !x.credit.waiting {
		x.credit.waiting = true
		p.waiting = append(p.waiting, x)
		c.count.withheld++
		c.wakeAt(int64(e.now) + creditMaxWait)
	}
}

func (p *creditPeer) unwait(x *QP) {
	if x.credit.waiting {
		x.credit.waiting = false
		i := slices.Index(p.waiting, x)
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
}

// resumeWaiting enqueues all that wait again.
func (p *creditPeer) resumeWaiting(e *engine) {
	for i, x := range p.waiting {
		x.credit.waiting = false
		e.enqueue(x)
		p.waiting[i] = nil
	}
	p.waiting = p.waiting[:0]
}

// attachCredit writes the credit that a packet of a flow consumes into its stamp. ahead: the
// packet is one that next sends; others consume none, nor does a copy of a packet.
func (c *credits) attachCredit(e *engine, x *QP, o *qp.Outbound, ahead bool) {
	p := x.dest.credit
	f := x.credit
	n := uint32(o.PayloadLen)
	if f == nil || !f.begun || o.Again || n == 0 {
		return
	}
	if !ahead {
		p.src.Pass(&f.Flow, n)
		return
	}
	if left := f.Left(); left < n { // the last packet that may be credited
		p.src.Push(&f.Flow, f.class, n-left)
	}
	k, ok := p.src.SrcSchedulePrecredit(int64(e.now), n)
	if !ok {
		return
	}
	o.Stamp.Flags |= rocev2.StampCredit
	o.Stamp.Credit, o.Stamp.CreditSeq = k.Credit.Bytes, k.Credit.Seq
	c.count.used += uint64(k.Bytes)
}

// quantum is the polling queue's of S5.6: larger than others' at first, and smaller the more
// was served.
func (c *credits) quantum(_ *engine, x *QP) int32 { return int32(c.poll.Turn(x.credit.served)) }

func (c *credits) onCharged(x *QP, n int) { x.credit.served += uint64(n) }
