// SPDX-License-Identifier: Apache-2.0

package qp

// The queue pairs that wait for room in an in-flight limiter, and which of them is next.
//
// There are two FIFO queues. One is for long READs, because the peer sends the whole
// response to a READ request: a queue pair gets 16 KB of a WRITE while it is served, but
// never less than a whole READ. The other queue is for everything else, which needs little
// room. Each queue pair is queued for its next packet.
//
//   - Within a queue no queue pair overtakes another.
//   - The short queue is before the long one until half the limit was admitted from it
//     more than from the long one. Then it is the turn of the long READ: no other packet is
//     admitted until there is room for it. Only what is admitted while a long READ waits
//     counts for this, and the short queue keeps no claim for times in which it was empty.
//   - If the congestion window has no room for the head of the short queue, the long READ
//     goes first: it does not need the window.

// shortRead is the number of packets of the longest READ that is not long. All queue pairs
// have room for it, even with the smallest limit.
const shortRead = minInflight / 4

// flightQueue is one FIFO queue of queue pairs.
type flightQueue struct{ head, tail *QP }

func isLongRead(n, size uint32) bool { return size == 0 && n > shortRead }

// wantsLongRead reports whether the queue pair is, or was, queued for a long READ.
func (q *QP) wantsLongRead() bool { return isLongRead(q.wantPackets, q.wantSize) }

// Waiting reports whether queue pairs are queued.
func (f *Flight) Waiting() bool { return f.short.head != nil || f.long.head != nil }

// Head returns the queue pair that ServeNext serves next, or nil if none is queued. There
// may be no room for it yet.
func (f *Flight) Head() *QP {
	short, long := f.short.head, f.long.head
	if long != nil && f.longFirst(long.wantPackets) {
		return long
	}
	return short
}

// longFirst reports that a long READ of n packets at the head of its queue is before the
// short queue.
func (f *Flight) longFirst(n uint32) bool {
	s := f.short.head
	return f.longTurn() || s == nil || f.room(s.wantPackets, s.wantSize) == 0 && f.room(n, 0) != 0
}

// longTurn reports that enough short messages were admitted while a long READ waited.
func (f *Flight) longTurn() bool { return f.shortLead >= int32(f.limit/2) }

// ServeNext starts the service of the next queue pair if none is being served and there
// is room. It returns the queue pair whose NextData the engine must call, or nil.
func (f *Flight) ServeNext() *QP {
	q := f.Head()
	if q == nil || f.serving != nil || f.room(q.wantPackets, q.wantSize) == 0 {
		return nil
	}
	f.remove(q)
	f.serving = q
	return q
}

// IsNext reports whether the queue pair is the one that ServeNext serves when there is room.
func (f *Flight) IsNext(q *QP) bool { return f.serving == nil && f.Head() == q }

// mayServe reports that no other queue pair is before q, whose next packet needs room for n
// packets of size bytes.
func (f *Flight) mayServe(q *QP, n, size uint32) bool {
	if f.serving == nil && !f.Waiting() || f.bypassWindow {
		return true
	}
	long := isLongRead(n, size)
	goesOn := f.serving == q && q.wantsLongRead() == long
	if f.serving != nil && !goesOn {
		return false
	}
	if long {
		return (goesOn || f.long.head == nil) && f.longFirst(n)
	}
	return (goesOn || f.short.head == nil) && (f.long.head == nil || !f.longTurn())
}

// onAdmitted notes that the queue pair sends its next packet, which is one of n of a SEND or
// WRITE, or requests a READ of n packets. Packets with pre-credit do not wait for a turn and
// do not count.
func (f *Flight) onAdmitted(q *QP, n, size uint32) {
	switch {
	case isLongRead(n, size):
		f.onLongRead(q, n)
	case f.long.head == nil || f.bypassWindow:
	case size != 0:
		f.shortLead++
	default:
		f.shortLead += int32(n)
	}
}

// onLongRead is onAdmitted for a long READ. It ends the service of the queue pair.
func (f *Flight) onLongRead(q *QP, n uint32) {
	if f.short.head != nil {
		f.shortLead = max(f.shortLead, 0) - int32(n)
	} else {
		f.shortLead = max(f.shortLead-int32(n), 0)
	}
	if q.longInflight == 0 {
		f.longReads++
	}
	q.longInflight = q.inflightPackets + n
	if f.serving == q {
		f.serving = nil
	}
}

// enqueue queues the queue pair until there is room for n packets of size bytes each: at
// the end or, if it is being served for the same queue, at the head.
func (f *Flight) enqueue(q *QP, n, size uint32) {
	long := isLongRead(n, size)
	same := q.wantsLongRead() == long
	if q.queued && !same {
		f.remove(q) // it had packets with pre-credit before
	}
	q.wantPackets, q.wantSize = n, size
	if q.queued {
		return
	}
	q.queued = true
	if l := f.queueOf(q); f.serving == q && same {
		l.pushHead(q)
	} else {
		l.pushTail(q)
	}
	if f.serving == q {
		f.serving = nil
	}
}

func (f *Flight) queueOf(q *QP) *flightQueue {
	if q.wantsLongRead() {
		return &f.long
	}
	return &f.short
}

func (f *Flight) remove(q *QP) {
	if q.queued {
		f.queueOf(q).remove(q)
		q.queued = false
	}
}

func (l *flightQueue) pushHead(q *QP) {
	if q.next = l.head; l.head != nil {
		l.head.prev = q
	} else {
		l.tail = q
	}
	l.head = q
}

func (l *flightQueue) pushTail(q *QP) {
	if q.prev = l.tail; l.tail != nil {
		l.tail.next = q
	} else {
		l.head = q
	}
	l.tail = q
}

func (l *flightQueue) remove(q *QP) {
	if q.prev != nil {
		q.prev.next = q.next
	} else {
		l.head = q.next
	}
	if q.next != nil {
		q.next.prev = q.prev
	} else {
		l.tail = q.prev
	}
	q.next, q.prev = nil, nil
}
