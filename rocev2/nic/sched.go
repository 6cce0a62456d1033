// SPDX-License-Identifier: Apache-2.0

package nic

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
	if !d.queued && d.paceBlocked == 0 {
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

// grant has the queue pair line up whose turn it is to use the room in the flight, if there
// is any. Whatever makes room calls it, and whatever ends a turn.
func (e *engine) grant(d *dest) {
	if q := d.flight.Turn(); q != nil {
		e.lineUp(e.qps.Lookup(q.QPN()))
	}
}

// idle takes the first queue pair out, whose NextData had nothing: what happens to it, or its
// turn in the flight, has it line up again.
func (e *engine) idle(d *dest, x *QP) {
	if !d.flight.Open() && x.q.Waits() {
		d.report.Waited++ // as for the pacer: the destination uses the rate that it has
	}
	d.pop()
	x.publish()
	e.rearm(x)
}

// pop takes the first queue pair out, and ends its turn.
func (d *dest) pop() {
	if d.unlinkFirst(); d.first == nil {
		d.pacer.Idle()
	}
}

func (d *dest) unlinkFirst() {
	x := d.first
	d.first = x.next
	if d.first == nil {
		d.last = nil
	}
	x.lined, x.next = false, nil
	x.q.EndTurn()
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

// contended reports that other queue pairs want what the first one leaves.
func (d *dest) contended() bool { return d.first != d.last || d.flight.Waiting() }

// lastOfTurn reports whether the first queue pair's next packet, of n bytes, is the last of
// its turn.
func (d *dest) lastOfTurn(x *QP, n int) bool { return x.deficit <= int32(n) && d.contended() }

// charge books what the first queue pair has sent, and ends its turn if that was
// enough.
func (e *engine) charge(d *dest, x *QP, n int) {
	x.deficit -= int32(n)
	if x.credit != nil {
		x.credit.served += uint64(n)
	}
	if x.deficit > 0 || !d.contended() {
		return
	}
	deficit := x.deficit + e.quantumOf(x)
	d.unlinkFirst()
	e.lineUp(x)
	x.deficit = deficit
}
