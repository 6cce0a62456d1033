// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/softroce/softroce-xdp/rocev2/qp"

// The ack-wait FIFO. Most ACKs come within microseconds, and no deadline of theirs is nearer
// than some hundred. So a queue pair that waits for one does not go to the wheel at once but
// into a FIFO for ackWaitTime, and leaves it when the ACK is there: that costs nothing but its
// slot. To be sorted into the wheel and looked at when its time has come would cost more than
// all other timekeeping, and the caches have lost the queue pair by then.

// ackWaitTime is less than the time after which the transport takes anything for lost.
const ackWaitTime = qp.Time(200_000)

// push appends a queue pair; false if it is full.
func (w *ackWaitFIFO) push(x *QP, now qp.Time) bool {
	if w.tail-w.head == ackWaitSlots {
		return false
	}
	w.slots[w.tail%ackWaitSlots] = ackWaitSlot{x, now + ackWaitTime}
	x.ackWaiting, x.ackWaitSlot = true, w.tail
	w.tail++
	return true
}

// remove removes a queue pair that is in the FIFO.
func (w *ackWaitFIFO) remove(x *QP) {
	w.slots[x.ackWaitSlot%ackWaitSlots].qp = nil
	x.ackWaiting = false
	w.skip()
}

// skip moves the head to the first slot with a queue pair.
func (w *ackWaitFIFO) skip() {
	for w.head != w.tail && w.slots[w.head%ackWaitSlots].qp == nil {
		w.head++
	}
}

// pop removes the first queue pair if its time is over; else nil.
func (w *ackWaitFIFO) pop(now qp.Time) *QP {
	p := &w.slots[w.head%ackWaitSlots]
	if w.head == w.tail || p.until > now {
		return nil
	}
	x := p.qp
	w.remove(x)
	return x
}

// next is when the first one's time is over, or 0.
func (w *ackWaitFIFO) next() qp.Time {
	if w.head == w.tail {
		return 0
	}
	return w.slots[w.head%ackWaitSlots].until
}

// timers are the deadlines of queue pairs.
type timers struct {
	ackWait  ackWaitFIFO
	wheel    wheel[*QP]
	deferred int       // iterations since the timers have fired
	onTimer  func(*QP) // Core.expire
}

// ackWaitSlots is how many fit; more go to the wheel.
const ackWaitSlots = 1024

// ackWaitFIFO is a ring of slots, which are numbered without end.
type ackWaitFIFO struct {
	slots      [ackWaitSlots]ackWaitSlot
	head, tail uint32
}

// ackWaitSlot is a queue pair that waits for an ACK until a time.
type ackWaitSlot struct {
	qp    *QP // nil: it was removed
	until qp.Time
}

// advance calls onTimer for the queue pairs whose deadlines have come, later if more may have arrived (maxDeferred).
func (w *timers) advance(now qp.Time, backlog bool) {
	if backlog && w.deferred < maxDeferred {
		w.deferred++
		return
	}
	w.deferred = 0
	w.expireAckWait(now)
	w.wheel.Advance(int64(now), w.onTimer)
}

// next returns when advance has something to do, or 0.
func (w *timers) next() int64 {
	a, b := int64(w.ackWait.next()), w.wheel.Next()
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// remove forgets a queue pair.
func (w *timers) remove(x *QP) {
	w.wheel.Stop(&x.timer)
	if x.ackWaiting {
		w.ackWait.remove(x)
	}
}

// rearm has a queue pair looked at when its deadline comes. A timer that
// is too early stays: most deadlines move on with every packet, and it is cheaper to
// look again than to move them.
func (w *timers) rearm(x *QP, now qp.Time) { w.rearmAt(x, x.deadline(), now) }

func (w *timers) rearmAt(x *QP, at, now qp.Time) {
	switch {
	case at == 0:
		if x.ackWaiting {
			w.ackWait.remove(x)
		}
	case x.ackWaiting && at >= w.ackWait.slots[x.ackWaitSlot%ackWaitSlots].until:
	case !x.ackWaiting && x.timer.At() == 0 && at >= now+ackWaitTime && w.ackWait.push(x, now):
	default:
		w.setTimer(x, at)
	}
}

func (w *timers) setTimer(x *QP, at qp.Time) {
	if x.timer.At() == 0 || int64(at) < x.timer.At() {
		w.wheel.Set(&x.timer, int64(at))
	}
}

// expireAckWait moves queue pairs to the wheel whose ACK has not come soon.
func (w *timers) expireAckWait(now qp.Time) {
	for {
		x := w.ackWait.pop(now)
		if x == nil {
			return
		}
		if at := x.deadline(); at != 0 {
			w.setTimer(x, at)
		}
	}
}
