// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2/verbs"

// Bounds of the packets outstanding to one destination. A softroce receiver has 4096
// frames, and a packet of PMTU 4096 takes two. Other receivers are not known to have fewer.
const (
	maxInflight  = maxWindow
	minInflight  = 256 // after losses: twice the reorder window
	inflightStep = 16  // increase in a round trip
)

// frameOverhead is the size of a data packet on the wire without its payload, as rates
// count it: Ethernet, IPv4, UDP, BTH and ICRC, in bytes.
const frameOverhead = 14 + 20 + 8 + 12 + 4

// Flight is the in-flight limiter of one destination. It limits what the queue pairs have
// outstanding there together. The limit in packets counts requests without a response and
// the responses that READs have requested, because a receiver has one set of frames for
// all. The limit in packets halves with losses and grows again. The limit in bytes counts
// SEND and WRITE and is set by congestion control (req_window_congestion.go).
// Retransmissions, probes and READ responses need no room. A Flight belongs to the
// engine's thread.
//
// A queue pair whose next packet finds no room enters a FIFO queue. So does one that finds
// other queue pairs queued. ServeNext removes the head of the queue as soon as there is room for
// its packet: from then on it is served. No other queue pair may send new packets while the
// queue is not empty. Service ends with the burst that the engine allows (EndService). If
// there is no room left before, the queue pair becomes the head again. So no queue pair
// overtakes another, and no room stays unused while a queue pair needs it.
type Flight struct {
	limit       uint32
	packets     uint32
	ackedRest   uint32 // packets acknowledged since the last increase
	decreasedAt Time

	window       uint64 // bytes, 0 = no limit
	bytes        uint64 // frames of SEND and WRITE outstanding
	answeredAt   Time   // when packets outstanding were last acknowledged
	bypassWindow bool   // window and queue do not apply to the packets sent now

	queueHead, queueTail *QP
	serving              *QP // being served, not queued; or nil
	dest                 destState
}

// NewFlight returns the limiter of a destination without history.
func NewFlight() Flight { return Flight{limit: maxInflight} }

// Used returns the number of packets outstanding.
func (f *Flight) Used() int { return int(f.packets) }

// Waiting reports whether queue pairs are queued.
func (f *Flight) Waiting() bool { return f.queueHead != nil }

// Head returns the first queue pair that is queued, or nil.
func (f *Flight) Head() *QP { return f.queueHead }

// ServeNext starts the service of the queue's head if no queue pair is being served and there
// is room. It returns the queue pair whose NextData the engine must call, or nil.
func (f *Flight) ServeNext() *QP {
	q := f.queueHead
	if q == nil || f.serving != nil || f.room(q.wantPackets, q.wantSize) == 0 {
		return nil
	}
	f.remove(q)
	f.serving = q
	return q
}

// IsNext reports whether the queue pair is the one that ServeNext serves when there is room.
func (f *Flight) IsNext(q *QP) bool { return f.queueHead == q && f.serving == nil }

// InService reports whether the queue pair is being served.
func (q *QP) InService() bool { return q.flight != nil && q.flight.serving == q }

// EndService ends the service of the queue pair, if it is being served.
func (q *QP) EndService() {
	if q.InService() {
		q.flight.serving = nil
	}
}

// SetFlight attaches the queue pair to the limiter of its destination. nil: no limit.
func (q *QP) SetFlight(f *Flight) {
	if old := q.flight; old != nil {
		q.setInflight(0)
		q.EndService()
		old.remove(q)
	}
	q.flight = f
	q.updateInflight()
}

// Waits reports whether the queue pair is queued.
func (q *QP) Waits() bool { return q.queued }

// updateInflight updates the queue pair's part of the outstanding packets.
func (q *QP) updateInflight() {
	if q.flight == nil || q.cfg.Type != verbs.RC {
		return
	}
	r := &q.req
	q.setInflight(uint32(r.sndMax - r.oldestUnanswered()))
	if r.head == r.tail || q.state != verbs.StateRTS && q.state != verbs.StateSQD {
		q.flight.remove(q)
	}
}

func (q *QP) setInflight(n uint32) {
	f, was := q.flight, q.inflightPackets
	if n == was {
		return
	}
	q.inflightPackets = n
	f.packets += n - was
	if n == 0 {
		q.addInflightBytes(-int64(q.inflightBytes))
	}
	if n >= was {
		return
	}
	f.answeredAt = max(f.answeredAt, q.req.now) // 0 after RESET and ERR
	if f.limit < maxInflight {
		if f.ackedRest += was - n; f.ackedRest >= f.limit {
			f.ackedRest = 0
			f.limit = min(f.limit+inflightStep, maxInflight)
		}
	}
}

// enqueue queues the queue pair until there is room for n packets of size bytes each: at
// the end or, if it is being served, at the head.
func (f *Flight) enqueue(q *QP, n, size uint32) {
	q.wantPackets, q.wantSize = n, size
	if q.queued {
		return
	}
	q.queued = true
	switch {
	case f.queueHead == nil:
		f.queueHead, f.queueTail = q, q
	case f.serving == q:
		q.next, f.queueHead.prev, f.queueHead = f.queueHead, q, q
	default:
		q.prev, f.queueTail.next, f.queueTail = f.queueTail, q, q
	}
	if f.serving == q {
		f.serving = nil
	}
}

func (f *Flight) remove(q *QP) {
	if !q.queued {
		return
	}
	if q.prev != nil {
		q.prev.next = q.next
	} else {
		f.queueHead = q.next
	}
	if q.next != nil {
		q.next.prev = q.prev
	} else {
		f.queueTail = q.prev
	}
	q.queued, q.next, q.prev = false, nil, nil
}

// room returns for how many of n packets there is room. size is the largest frame in
// bytes. size 0 means the responses to a READ, which are admitted together. Half the limit
// is enough for them, so that the next long READ is requested while the second half of the
// last one is outstanding.
func (f *Flight) room(n, size uint32) uint32 {
	switch {
	case f.packets >= f.limit:
		return 0
	case size != 0:
		return f.windowRoom(min(n, f.limit-f.packets), size)
	case f.limit-f.packets >= min(n, f.limit/2):
		return n
	}
	return 0
}

// admit returns how many of the queue pair's next packets may leave. If none may, it
// enqueues the queue pair. The limits may have become smaller since it sent its last
// packets, and none of those may have requested an ACK: its timer has to run.
func (q *QP) admit(n, size uint32) uint32 {
	f := q.flight
	if f == nil {
		return n
	}
	if f.mayServe(q) {
		if k := f.room(n, size); k != 0 {
			return k
		}
	}
	if !f.bypassWindow {
		f.enqueue(q, n, size)
		if r := &q.req; r.sndUna < r.sndMax {
			r.rto.armTail(r.now, r.sndMax-1)
		}
	}
	return 0
}

// blockedInSilence reports that the queue pair is queued and that its destination has not
// responded to anything since the given time. The packet that would request the ACK may
// find no room then until an ACK has come.
func (q *QP) blockedInSilence(since Time) bool { return q.queued && q.flight.answeredAt <= since }

// mayServe reports that no other queue pair is before q.
func (f *Flight) mayServe(q *QP) bool {
	return f.serving == q || f.serving == nil && f.queueHead == nil || f.bypassWindow
}

// decreaseInflight halves the limit after a loss, once for all queue pairs that see it.
func (q *QP) decreaseInflight(now, roundTrip Time) {
	f := q.flight
	if f == nil || f.decreasedAt != 0 && now-f.decreasedAt < 2*roundTrip {
		return
	}
	f.limit, f.ackedRest, f.decreasedAt = max(min(f.limit, f.packets)/2, minInflight), 0, now
}
