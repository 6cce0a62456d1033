// SPDX-License-Identifier: Apache-2.0

package engine

// Who sends next (fifo, drrQueue). Destinations are served first in, first out; the egresses of
// queue pairs at a destination by deficit round robin. The queue pairs that are blocked on the window
// or the in-flight limit of a destination are in the two queues of qp.Flight.
//
// A destination is in one of three states.
//
//	idle         no egress is queued there
//	queued       in transmitter.ready, or in transmitter.socketFull until the next iteration
//	pace-blocked egresses are queued there, and its timer unblocks it (tx_pacer.go)

// quantum is what a queue pair may send in a row while others of its destination wait, in
// bytes of frames.
const quantum = 16 << 10

// entryQuantum is that at a destination with an entry, whose rate may be far below that of a link: queue pairs that share it
// get their parts within a few packets. It is not less than the longest frame.
const entryQuantum = 4<<10 + 256

// quantum is that of one queue pair.
func (t *transmitter) quantum(x *QP) int32 {
	switch {
	case x.hooked:
		return t.e.hooks.quantum(x)
	case x.home != nil && x.home.entry != nil:
		return entryQuantum
	}
	return quantum
}

// enqueue puts an egress into the queue of its destination, unless it is in it. Whether
// its queue pair has data is found out there, by NextData.
func (t *transmitter) enqueue(g *egress) {
	if d := g.home; d != nil && !g.drr.Queued() {
		d.drr.Enqueue(&g.drr, g, t.quantum(g.qp))
		t.enqueueDest(d)
	}
}

// enqueueDest puts a destination into service that is not pace-blocked.
func (t *transmitter) enqueueDest(d *dest) {
	if !d.queued && d.paceBlocked == 0 {
		d.queued = true
		t.ready.Push(&d.link, d)
	}
}

// dequeue removes the first egress of a destination and ends its burst.
func (d *dest) dequeue() {
	x := d.drr.First().qp
	d.drr.Dequeue()
	x.q.EndService()
	if d.drr.Empty() {
		d.pacer.Idle()
		d.waited = 0
	}
}

// remove removes an egress wherever it is in the queue.
func (d *dest) remove(g *egress) {
	if d.drr.First() == g {
		d.dequeue()
	} else {
		d.drr.Remove(&g.drr)
	}
}

// requeue moves the first egress of a destination to the queue of another one: a queue
// pair of UD is queued where its next packet goes.
func (t *transmitter) requeue(g *egress, to *dest) {
	g.home.dequeue()
	g.home = to
	t.enqueue(g)
}

// dequeueIdle removes the first egress, as its queue pair x has no packet for it. What happens to the queue
// pair, or room in the flight, enqueues it again.
func (t *transmitter) dequeueIdle(d *dest, x *QP) {
	if !d.flight.Open() && x.q.Waits() {
		d.report.Waited++ // as for the pacer: the destination uses the rate that it has
	}
	d.dequeue()
	if x.transport.SendQueued() > 0 {
		d.idle = x.num
	}
	x.publish()
	t.e.timers.rearm(x, t.e.now)
}

// enqueueUnblocked enqueues the next of the queue pairs that are blocked on the limits of a
// destination, if there is room for it now. Whatever makes room calls it, and whatever ends
// a burst.
func (t *transmitter) enqueueUnblocked(d *dest) {
	if q := d.flight.ServeNext(); q != nil {
		t.enqueue(&t.e.qps.Lookup(q.QPN()).egress)
	}
}

// contended reports that other queue pairs want what the first egress leaves.
func (d *dest) contended() bool { return d.drr.Others() || d.flight.Waiting() }

// lastOfQuantum reports whether the next packet of the queue pair in service, of n bytes,
// ends its service.
func (d *dest) lastOfQuantum(n int) bool { return d.drr.Remaining() <= int32(n) && d.contended() }

// chargeDeficit deducts n bytes that the queue pair in service has sent, and ends its
// service if that was its quantum and others wait.
func (t *transmitter) chargeDeficit(d *dest, x *QP, n int) (ends bool) {
	if x.hooked {
		t.e.hooks.onCharged(x, n)
	}
	if d.drr.Charge(int32(n)) > 0 || !d.contended() {
		return false
	}
	d.drr.Rotate(t.quantum(x))
	x.q.EndService()
	return true
}
