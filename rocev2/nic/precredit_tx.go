// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// rouse has transmit look at a peer: its first flow may have pre-credit now, as that has
// come or it has just become the first.
func (c *credits) rouse(p *creditPeer) {
	if !p.eager && p.src.Len() > 0 {
		p.eager = true
		c.eager = append(c.eager, p)
	}
}

// next sends up to n packets that have pre-credit and returns how many. They go past
// the line and the pacer of their destination: a small flow must not wait for what
// large ones may send by their rate. The pacer counts them all the same, so that the
// rate holds: what comes behind waits the longer, pre-credit too when a product's worth
// has left ahead of its time. Else hosts that have nothing but small flows would have no
// rate at all.
func (c *credits) next(e *engine, n int) (sent int) {
	kept := c.eager[:0]
	for _, p := range c.eager {
		k, more := c.sendCredited(e, p, n-sent)
		if sent += k; more {
			kept = append(kept, p)
		} else {
			p.eager = false
		}
	}
	clear(c.eager[len(kept):])
	c.eager = kept
	return sent
}

// sendCredited is next for one peer. more: it could go on in another iteration.
func (c *credits) sendCredited(e *engine, p *creditPeer, n int) (sent int, more bool) {
	o := &e.out
	for tries := txTries; tries > 0 && p.on && p.dest != nil && p.dest.stamps; tries-- {
		flow := p.src.Head()
		if flow == nil {
			break
		}
		x := flow.Data.(*QP)
		at := p.src.Ready(int64(e.now))
		if at < min(flow.Left(), x.credit.packet) || p.dest.borrowed(e) > c.bdp {
			break // it stands in line as well
		}
		if sent >= n {
			return sent, true
		}
		if !e.room(x) {
			e.blocked = true
			return sent, true
		}
		// The first packet, to hear after one round trip, and the last for now.
		if !x.credit.asked || at < 2*x.credit.packet {
			x.credit.asked = true
			x.q.AskAck()
		}
		p.dest.flight.Pass(true)
		has := x.q.NextData(e.now, o)
		p.dest.flight.Pass(false)
		if !has { // what it still has goes as without, when it may
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
		e.touch(x) // for its timer: it may not get a turn in the line for long
	}
	return sent, false
}

// mayStart has a queue pair wait for the first answer of the peer, if it is one that waits.
func (c *credits) mayStart(e *engine, x *QP) bool {
	p := x.dest.credit
	if p.withholds(x) {
		c.wait(e, p, x)
		return false
	}
	return true
}

// withholds reports whether a queue pair's next packet waits until something is heard
// from the peer: it is a large flow's, without pre-credit, and others are under way.
func (p *creditPeer) withholds(x *QP) bool {
	f := x.credit
	if !p.on || !f.begun || f.class != precredit.Large || !p.blind {
		return false
	}
	if p.dest.flight.Used() > 0 {
		return true
	}
	x.q.AskAck() // the only one until it is answered
	return false
}

// borrowed is how many bytes have left ahead of what the rate allows.
func (d *dest) borrowed(e *engine) uint32 {
	if d.pacer.Rate() == 0 || !e.live.Paced {
		return 0
	}
	return precredit.BDP(d.pacer.Rate(), d.pacer.Next()-int64(e.now))
}

// tclass is the traffic class of a packet (S5.4): what a large flow sends, and a small
// one that goes on for longer than its first round trip, has the DSCP that switches
// serve last, if there is one. Within a queue pair packets move to that class at some
// point and back only when nothing is outstanding, so none overtakes an earlier one in
// switches that serve the other class first. In switches that share between the two it
// may: only who has SACK is marked.
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

// tellsNothing reports whether a packet's time on the way says nothing of the queue that
// the destination's rate fills: it passes the large ones. The policy would take the
// least time for the queue's and see none until packets are lost.
func (c *credits) tellsNothing(d *dest, tclass uint8, now qp.Time) bool {
	return c.large != 0 && d.largeAt != 0 && now-d.largeAt < largeWindow && tclass>>2 != c.large
}

// largeWindow is for how long after a large packet: two of the agent's.
const largeWindow = qp.Time(20 * time.Millisecond)

// wait keeps a queue pair until something is heard from the peer, but not for long: what
// is under way may be of somebody who ends without an answer.
func (c *credits) wait(e *engine, p *creditPeer, x *QP) {
	if !x.credit.waiting {
		x.credit.waiting = true
		p.waiting = append(p.waiting, x)
		c.count.withheld++
		c.wakeAt(int64(e.now) + creditPatience)
	}
}

func (p *creditPeer) unwait(x *QP) {
	if x.credit.waiting {
		x.credit.waiting = false
		i := slices.Index(p.waiting, x)
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
}

// wake has all that wait line up again, to be judged anew.
func (p *creditPeer) wake(e *engine) {
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
	if left := f.Left(); left < n { // the last packet of those that may be paid
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
