// SPDX-License-Identifier: Apache-2.0

package nic

import "github.com/softroce/softroce-xdp/rocev2/qp"

// Most answers come within microseconds, and no deadline of theirs is nearer than some
// hundred. So a queue pair that waits for one does not go to the wheel at once but
// stands in a line for watchTime, which it leaves when the answer is there: that costs
// nothing but its place. To be sorted into the wheel and looked at when its time has
// come would cost more than all other timekeeping, and the caches have lost the queue
// pair by then.

// watchTime is less than the time after which the transport takes anything for lost.
const watchTime = qp.Time(200_000)

// watchPlaces is how many can stand in line; those beyond go to the wheel.
const watchPlaces = 1024

// watchLine is the line. Its places are numbered without end.
type watchLine struct {
	places     [watchPlaces]watchPlace
	head, tail uint32
}

type watchPlace struct {
	qp    *QP // nil: it has left
	until qp.Time
}

// join puts a queue pair at the end; false if there is no place.
func (w *watchLine) join(x *QP, now qp.Time) bool {
	if w.tail-w.head == watchPlaces {
		return false
	}
	w.places[w.tail%watchPlaces] = watchPlace{x, now + watchTime}
	x.watched, x.place = true, w.tail
	w.tail++
	return true
}

// leave takes a queue pair out that stands in line.
func (w *watchLine) leave(x *QP) {
	w.places[x.place%watchPlaces].qp = nil
	x.watched = false
	w.skip()
}

// skip has the line begin with a queue pair.
func (w *watchLine) skip() {
	for w.head != w.tail && w.places[w.head%watchPlaces].qp == nil {
		w.head++
	}
}

// pop takes the first out if its time is over; else nil.
func (w *watchLine) pop(now qp.Time) *QP {
	p := &w.places[w.head%watchPlaces]
	if w.head == w.tail || p.until > now {
		return nil
	}
	x := p.qp
	w.leave(x)
	return x
}

// next is when the first one's time is over, or 0.
func (w *watchLine) next() qp.Time {
	if w.head == w.tail {
		return 0
	}
	return w.places[w.head%watchPlaces].until
}

// rearm sees to it that somebody looks at a queue pair at its deadline. A timer that
// is too early stays: most deadlines move on with every packet, and it is cheaper to
// look again than to move them.
func (e *engine) rearm(x *QP) { e.rearmAt(x, x.q.Deadline()) }

func (e *engine) rearmAt(x *QP, at qp.Time) {
	switch {
	case at == 0:
		if x.watched {
			e.watch.leave(x)
		}
	case x.watched && at >= e.watch.places[x.place%watchPlaces].until:
	case !x.watched && x.timer.At() == 0 && at >= e.now+watchTime && e.watch.join(x, e.now):
	default:
		e.setTimer(x, at)
	}
}

func (e *engine) setTimer(x *QP, at qp.Time) {
	if x.timer.At() == 0 || int64(at) < x.timer.At() {
		e.qpTimers.Set(&x.timer, int64(at))
	}
}

// endWatch has the wheel look after those whose answer has not come soon.
func (e *engine) endWatch() {
	for {
		x := e.watch.pop(e.now)
		if x == nil {
			return
		}
		if at := x.q.Deadline(); at != 0 {
			e.setTimer(x, at)
		}
	}
}
