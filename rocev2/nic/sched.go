// SPDX-License-Identifier: Apache-2.0

package nic

import "slices"

// quantum is what a queue pair may send in a row while others of its destination
// wait, in bytes of frames. Deficit round robin (Shreedhar and Varghese, 1995), with
// the last packet of a turn on credit: its length is known only after it was taken.
const quantum = 16 << 10

// quantumOf is that of one queue pair. With pre-credit it is the polling queue's of S5.6:
// larger than others' at first, and smaller the more was served.
func (e *engine) quantumOf(x *QP) int32 {
	if x.credit == nil {
		return quantum
	}
	return int32(e.credit.poll.Turn(x.credit.served))
}

// destRing is the queue of destinations that may have something to send.
type destRing struct{ first, last *dest }

func (r *destRing) push(d *dest) {
	d.next = nil
	if r.last == nil {
		r.first = d
	} else {
		r.last.next = d
	}
	r.last = d
}

func (r *destRing) pop() *dest {
	d := r.first
	r.first = d.next
	if r.first == nil {
		r.last = nil
	}
	d.next = nil
	return d
}

// enqueue gives the destination a turn.
func (e *engine) enqueue(d *dest) {
	if !d.queued && d.held == 0 {
		d.queued = true
		e.ready.push(d)
	}
}

// lineUp puts a queue pair in the queue of its destination. NextData tells there
// whether it has data.
func (e *engine) lineUp(x *QP) {
	d := x.home
	if d == nil || x.lined {
		return
	}
	x.lined, x.next, x.deficit = true, nil, e.quantumOf(x)
	if d.last == nil {
		d.first = x
	} else {
		d.last.next = x
	}
	d.last = x
	e.enqueue(d)
}

// move has the queue pair whose turn it is line up elsewhere: one of UD where its next
// packet goes.
func (e *engine) move(x *QP, to *dest) {
	x.home.pop()
	x.home = to
	e.lineUp(x)
}

// park keeps a queue pair that has to wait until the destination's other ones have less
// on their way.
func (d *dest) park(x *QP) {
	if x.q.Waits() && !x.parked {
		x.parked = true
		d.parked = append(d.parked, x)
		d.report.Waited++ // as for the pacer: it uses the rate that it has
	}
}

// unpark has the next one of those line up, if there is room. Each answer calls it, and
// each that has lined up and left nothing.
func (e *engine) unpark(d *dest) {
	if len(d.parked) > 0 && d.flight.Room() {
		x := d.parked[0]
		d.leavePark(x)
		e.lineUp(x)
	}
}

func (d *dest) leavePark(x *QP) {
	if x.parked {
		x.parked = false
		if d.parked[0] == x { // mostly: the others need not move
			d.parked[0], d.parked = nil, d.parked[1:]
			return
		}
		i := slices.Index(d.parked, x)
		d.parked = slices.Delete(d.parked, i, i+1)
	}
}

// pop takes the first queue pair out.
func (d *dest) pop() {
	x := d.first
	d.first = x.next
	if d.first == nil {
		d.last, d.busy = nil, false
	}
	x.lined, x.next = false, nil
}

// quit takes a queue pair out wherever it stands. The line is walked: only who loses
// its destination leaves it like this.
func (d *dest) quit(x *QP) {
	if d.first == x {
		d.pop()
		return
	}
	before := d.first
	for before.next != x {
		before = before.next
	}
	if before.next = x.next; d.last == x {
		d.last = before
	}
	x.lined, x.next = false, nil
}

// charge books what the first queue pair has sent, and ends its turn if that was
// enough.
func (e *engine) charge(d *dest, x *QP, n int) {
	x.deficit -= int32(n)
	if x.credit != nil {
		x.credit.served += uint64(n)
	}
	if x.deficit > 0 || d.first == d.last {
		return
	}
	d.pop()
	x.lined, x.deficit = true, x.deficit+e.quantumOf(x)
	d.last.next = x
	d.last = x
}
