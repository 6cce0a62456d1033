// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The stages of a sent packet. The functions follow in this order.
//
//  1. flushDirty: queue pairs that something happened to send their ACKs and NAKs, which
//     are not paced, and are queued at their destination if they may have data
//  2. choose: hooks first (hooks.go); then destinations that the pacer lets send, one after
//     the other; the queue pairs of a destination by deficit round robin (tx_sched.go), and
//     those that are blocked on its window in their order (qp.Flight)
//  3. build:  headers into the frame, the payload behind them from memory, ICRC
//  4. stamp:  the option, if the peer understands it and the MTU has room
//  5. push:   to the port of the destination

// Budgets of one iteration. None of them depends on whether anything can be sent.
const (
	txBatch   = 256         // packets of data
	destBurst = 16          // of them to one destination in a row
	txTries   = 4 * txBatch // queue pairs and destinations that are asked for packets
	ackBurst  = 256         // ACKs and NAKs of one queue pair
)

// markDirty has flushDirty serve a queue pair in this iteration.
func (t *transmitter) markDirty(x *QP) {
	if !x.dirty {
		x.dirty = true
		t.dirty = append(t.dirty, x)
	}
}

// flushDirty sends the ACKs and NAKs of queue pairs that something happened to since it last
// ran, shows applications what completed, and queues those that may have data.
func (t *transmitter) flushDirty() {
	remaining, n := 0, len(t.dirty)
	for _, x := range t.dirty[:n] {
		nakWaits := t.nakWaits(x)
		if !x.dead && (nakWaits || !t.flushAnswers(x)) {
			// The rest waits for the next iteration.
			t.dirty[remaining] = x
			remaining++
			t.framesExhausted = t.framesExhausted || !nakWaits
			x.publish()
			t.e.timers.rearm(x, t.e.now)
			continue
		}
		x.dirty = false
		if x.dead {
			continue
		}
		if d := x.dest; d != nil && d.sack != x.selective && x.typ == verbs.RC {
			t.negotiate(x)
		}
		x.publish()
		t.e.timers.rearm(x, t.e.now)
		if x.dest != nil {
			t.enqueueUnblocked(x.dest)
		}
		t.enqueue(&x.egress)
		rails := x.rails()
		for i := range rails {
			t.enqueue(&rails[i])
		}
	}
	t.dirty = append(t.dirty[:remaining], t.dirty[n:]...)
	t.e.host.PublishCompletions()
}

// flushAnswers sends the ACKs and NAKs of a queue pair, in out-of-order mode by whichever of its interfaces has
// room. False: the rest waits.
func (t *transmitter) flushAnswers(x *QP) bool {
	for range ackBurst {
		if t.answerBy(x) == nil {
			return false // its ports have no frames
		}
		o := x.nextAck(t.e)
		if o == nil {
			return true
		}
		t.send(t.forAnswer(x, o), o, false)
	}
	return false
}

// transmit sends data and returns how many packets, or 1 if it has not come to the end of
// what may be sent. A destination whose port is full does not block those of other ports.
func (t *transmitter) transmit() (did int) {
	sent, tries := 0, txTries
	for !t.socketFull.Empty() {
		d := t.socketFull.Pop()
		t.ready.Push(&d.link, d)
	}
	if t.e.hooks != nil {
		sent = t.e.hooks.next(txBatch)
	}
	for sent < txBatch && tries > 0 && !t.ready.Empty() {
		d := t.ready.Pop() // it stays marked as queued, so that enqueueDest leaves it alone
		tries--
		n, next := t.serve(d, min(destBurst, txBatch-sent), &tries)
		sent += n
		switch {
		case next == destSocketFull:
			t.socketFull.Push(&d.link, d)
		case next == destReady && !d.drr.Empty():
			t.ready.Push(&d.link, d)
		default:
			d.queued = false
		}
	}
	if tries == 0 {
		return max(sent, 1)
	}
	return sent
}

// destNext is what becomes of a destination that was served.
type destNext uint8

const (
	destReady      destNext = iota // it stays in service as long as queue pairs are queued there
	destPaced                      // the pacer's timer has it go on
	destSocketFull                 // it goes on when its port has frames again
)

// serve sends up to n packets to a destination, and calls NextData of up to tries queue pairs.
func (t *transmitter) serve(d *dest, n int, tries *int) (sent int, next destNext) {
	for sent < n && *tries > 0 {
		*tries--
		t.enqueueUnblocked(d)
		g := d.drr.First() // in service
		if g == nil {
			return sent, destReady
		}
		a, x := g.next(), g.qp
		if to := g.destOf(a); to != d {
			t.requeue(g, to)
			continue
		}
		if x.hooked && !t.e.hooks.mayStart(x) {
			d.idle = x.num
			d.dequeue()
			t.e.timers.rearm(x, t.e.now) // for what it has sent before
			continue
		}
		switch {
		case !d.mayLeave(t.e):
			t.blockOnPacer(d)
			t.e.timers.rearm(x, t.e.now) // for what it has sent: its next packet may leave late
			return sent, destPaced
		case !t.hasFrame(a):
			t.framesExhausted = true
			t.e.timers.rearm(x, t.e.now)
			return sent, destSocketFull
		}
		o := x.nextData(t.e, g)
		if o == nil {
			t.dequeueIdle(d, x)
			continue
		}
		t.dispatch(d, g, o)
		sent++
	}
	t.enqueueUnblocked(d) // the last try may have ended a service, and the queue be empty
	return sent, destReady
}

// dispatch sends a packet by the egress in service at a destination.
func (t *transmitter) dispatch(d *dest, g *egress, o *qp.Outbound) {
	x := g.qp
	if !o.AckReq && d.lastOfQuantum(etherLen+o.Len(o.PayloadLen)) {
		x.q.RequestAck(t.e.now, o) // no other packet asks for it before its next service
	}
	size, to := t.send(g, o, false)
	to.consumeTokens(t.e, size, false)
	if o.Opcode == rocev2.RCReadRequest {
		size = max(size, int(min(o.DMALen, quantum))) // its quantum is for the responses
	}
	if t.chargeDeficit(d, x, size) {
		t.e.timers.rearm(x, t.e.now) // for what it has sent: its next turn may be late
	}
	switch {
	case x.typ != verbs.RC, x.sendDone.Load() != x.sendsDone():
		t.markDirty(x) // flushDirty shows the room before the completion: what has left is complete, or a local operation was
	case x.q.AckDue():
		t.markDirty(x) // it waited for the READ response that has left
	}
}
