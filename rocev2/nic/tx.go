// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// A packet's way out. The functions follow in this order.
//
//  1. settle: queue pairs that something happened to send their answers, which are
//     not paced, and line up at their destination if they have data
//  2. choose: what has pre-credit goes first (precredit_tx.go); destinations take turns
//     (here), those that the pacer lets; so do the queue pairs of a destination (tx_sched.go),
//     and among those that wait for room in its flight (qp/flight.go)
//  3. build:  headers into the frame, the payload behind them from memory, ICRC
//  4. stamp:  the option, if the peer understands it and the MTU has room
//  5. push:   to the socket; submit shows all of it to the kernel (tx_kick.go)

// Budgets of one turn. None of them depends on whether anything can be sent.
const (
	txBatch     = 256         // packets of data
	destBurst   = 16          // of them to one destination in a row
	txTries     = 4 * txBatch // queue pairs and destinations that are asked for packets
	answerBurst = 256         // answers of one queue pair
)

// settle draws the conclusions of what happened since it last ran.
func (e *engine) settle() {
	stuck, n := 0, len(e.touched)
	for _, x := range e.touched[:n] {
		if !x.dead && !e.answers(x) {
			// The rest waits for the next turn.
			e.touched[stuck] = x
			stuck++
			e.blocked = true
			x.publish()
			continue
		}
		x.touched = false
		if x.dead {
			continue
		}
		if d := x.dest; d != nil && d.sack != x.selective && x.typ == qp.RC {
			e.negotiate(x)
		}
		x.publish()
		e.rearm(x)
		if x.dest != nil {
			e.enqueueUnblocked(x.dest)
		}
		e.enqueue(x)
		if x.hooks != nil {
			x.hooks.onFlush(e, x)
		}
	}
	e.touched = append(e.touched[:stuck], e.touched[n:]...)
	e.show()
}

// answers sends what a queue pair has to answer. False: there is more.
func (e *engine) answers(x *QP) bool {
	for range answerBurst {
		if x.path != nil && !e.room(x) {
			return false // the kernel has all frames of its socket
		}
		if !x.q.NextAck(e.now, &e.out) {
			return true
		}
		e.send(x, &e.out, false)
	}
	return false
}

// transmit sends data and returns how many packets, or 1 if it has not come to the end of
// what may be sent. A destination whose socket is full does not hold up those of other sockets.
func (e *engine) transmit() (did int) {
	sent, tries := 0, txTries
	if e.hooks != nil {
		sent = e.hooks.next(e, txBatch)
	}
	for sent < txBatch && tries > 0 && !e.ready.Empty() {
		d := e.ready.Pop() // still queued: nobody else puts it in a ring
		tries--
		n, next := e.serve(d, min(destBurst, txBatch-sent), &tries)
		sent += n
		switch {
		case next == destFull:
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
	destReady destNext = iota // it goes on as long as queue pairs are in its line
	destPaced                 // the pacer's timer has it go on
	destFull                  // it goes on when the kernel has given frames back
)

// serve lets a destination send up to n packets, and ask up to tries queue pairs for them.
func (e *engine) serve(d *dest, n int, tries *int) (sent int, next destNext) {
	for sent < n && *tries > 0 {
		*tries--
		e.enqueueUnblocked(d)
		x := d.drr.First() // whose turn it is
		if x == nil {
			return sent, destReady
		}
		if to := x.bound(); to != d {
			e.requeue(x, to)
			continue
		}
		if x.hooks != nil && !x.hooks.mayStart(e, x) {
			d.dequeue()
			continue
		}
		switch {
		case !d.mayLeave(e):
			e.blockOnPacer(d)
			return sent, destPaced
		case !e.room(x):
			e.blocked = true
			return sent, destFull
		case !x.q.NextData(e.now, &e.out):
			e.dequeueIdle(d, x)
			continue
		}
		e.dispatch(d, x, &e.out)
		sent++
	}
	return sent, destReady
}

// dispatch sends a packet of the queue pair in service at a destination.
func (e *engine) dispatch(d *dest, x *QP, o *qp.Outbound) {
	if !o.AckReq && d.lastOfQuantum(etherLen+o.Len(o.PayloadLen)) {
		x.q.AskNow(e.now, o) // nobody else would ask for it before the next turn
	}
	size, to := e.send(x, o, false)
	to.consumeTokens(e, size)
	if o.Opcode == rocev2.RCReadRequest {
		size = max(size, int(min(o.DMALen, quantum))) // its turn is for the answers
	}
	e.chargeDeficit(d, x, size)
	if x.typ != qp.RC {
		e.touch(x) // what has left is complete: settle makes room for another before it says so
	}
}

// room reports whether there is memory for the next packet of the queue pair.
func (e *engine) room(x *QP) bool {
	path, d := x.path, x.dest
	if path == nil { // UD
		a := x.handle()
		if a == nil {
			return true
		}
		path, d = a.path, a.dest
	}
	switch to := path.Current(); {
	case to.Err != nil: // send drops it: a queue pair without a way must not hold up others
		return true
	case to.Loopback:
		return e.own.count < ownLimit
	}
	return d.sock.xsk.Reserve(1) > 0
}

// handle is the address handle of the next packet of a queue pair of UD; nil if there
// is no packet, or it was destroyed: what was posted with it is lost.
func (x *QP) handle() *AH {
	if o := x.q.NextAH(); o != nil {
		if a, ok := o.Path.(*AH); ok && a.dest != nil {
			return a
		}
	}
	return nil
}

// bound is the destination whose pacer and socket the next packet of a queue pair needs.
func (x *QP) bound() *dest {
	if x.typ == qp.UD {
		if a := x.handle(); a != nil {
			return a.dest
		}
	}
	return x.home
}
