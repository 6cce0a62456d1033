// SPDX-License-Identifier: Apache-2.0

package nic

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
//  5. push:   to the socket; submit shows all of it to the kernel (tx_kick.go)

// Budgets of one iteration. None of them depends on whether anything can be sent.
const (
	txBatch   = 256         // packets of data
	destBurst = 16          // of them to one destination in a row
	txTries   = 4 * txBatch // queue pairs and destinations that are asked for packets
	ackBurst  = 256         // ACKs and NAKs of one queue pair
)

// flushDirty sends the ACKs and NAKs of queue pairs that something happened to since it last
// ran, shows applications what completed, and queues those that may have data.
func (e *engine) flushDirty() {
	remaining, n := 0, len(e.dirty)
	for _, x := range e.dirty[:n] {
		nakWaits := e.nakWaits(x)
		if !x.dead && (nakWaits || !e.flushAnswers(x)) {
			// The rest waits for the next iteration.
			e.dirty[remaining] = x
			remaining++
			e.txFramesExhausted = e.txFramesExhausted || !nakWaits
			x.publish()
			continue
		}
		x.dirty = false
		if x.dead {
			continue
		}
		if d := x.dest; d != nil && d.sack != x.selective && x.typ == verbs.RC {
			e.negotiate(x)
		}
		x.publish()
		e.rearm(x)
		if x.dest != nil {
			e.enqueueUnblocked(x.dest)
		}
		e.enqueue(&x.egress)
		rails := x.rails()
		for i := range rails {
			e.enqueue(&rails[i])
		}
	}
	e.dirty = append(e.dirty[:remaining], e.dirty[n:]...)
	e.publishCompletions()
}

// flushAnswers sends the ACKs and NAKs of a queue pair, in out-of-order mode by whichever of its interfaces has
// room. False: the rest waits.
func (e *engine) flushAnswers(x *QP) bool {
	for range ackBurst {
		if e.answerBy(x) == nil {
			return false // the kernel has all frames of its sockets
		}
		o := x.nextAck(e)
		if o == nil {
			return true
		}
		e.send(e.forAnswer(x, o), o, false)
	}
	return false
}

// transmit sends data and returns how many packets, or 1 if it has not come to the end of
// what may be sent. A destination whose socket is full does not block those of other sockets.
func (e *engine) transmit() (did int) {
	sent, tries := 0, txTries
	if e.hooks != nil {
		sent = e.hooks.next(txBatch)
	}
	for sent < txBatch && tries > 0 && !e.ready.Empty() {
		d := e.ready.Pop() // it stays marked as queued, so that enqueueDest leaves it alone
		tries--
		n, next := e.serve(d, min(destBurst, txBatch-sent), &tries)
		sent += n
		switch {
		case next == destSocketFull:
			e.socketFull.Push(&d.link, d)
		case next == destReady && !d.drr.Empty():
			e.ready.Push(&d.link, d)
		default:
			d.queued = false
		}
	}
	for !e.socketFull.Empty() {
		d := e.socketFull.Pop()
		e.ready.Push(&d.link, d)
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
	destSocketFull                 // it goes on when the kernel has given frames back
)

// serve sends up to n packets to a destination, and calls NextData of up to tries queue pairs.
func (e *engine) serve(d *dest, n int, tries *int) (sent int, next destNext) {
	for sent < n && *tries > 0 {
		*tries--
		e.enqueueUnblocked(d)
		g := d.drr.First() // in service
		if g == nil {
			return sent, destReady
		}
		a, x := g.next(), g.qp
		if to := g.destOf(a); to != d {
			e.requeue(g, to)
			continue
		}
		if x.hooked && !e.hooks.mayStart(x) {
			d.idle = x.num
			d.dequeue()
			continue
		}
		switch {
		case !d.mayLeave(e):
			e.blockOnPacer(d)
			return sent, destPaced
		case !e.hasFrame(a):
			e.txFramesExhausted = true
			return sent, destSocketFull
		}
		o := x.nextData(e, g)
		if o == nil {
			e.dequeueIdle(d, x)
			continue
		}
		e.dispatch(d, g, o)
		sent++
	}
	return sent, destReady
}

// dispatch sends a packet by the egress in service at a destination.
func (e *engine) dispatch(d *dest, g *egress, o *qp.Outbound) {
	x := g.qp
	if !o.AckReq && d.lastOfQuantum(etherLen+o.Len(o.PayloadLen)) {
		x.q.RequestAck(e.now, o) // no other packet asks for it before its next service
	}
	size, to := e.send(g, o, false)
	to.consumeTokens(e, size)
	if o.Opcode == rocev2.RCReadRequest {
		size = max(size, int(min(o.DMALen, quantum))) // its quantum is for the responses
	}
	e.chargeDeficit(d, x, size)
	if x.typ != verbs.RC {
		e.markDirty(x) // what has left is complete: flushDirty makes room for another before the completion shows
	} else if x.q.AckDue() {
		e.markDirty(x) // it waited for the READ response that has left
	}
}
