// SPDX-License-Identifier: Apache-2.0

package qp

// Bounds of what is outstanding to one destination, in packets. A receiver of ours has
// 4096 frames, and a packet of PMTU 4096 takes two; others are not known to have fewer.
const (
	maxInflight  = maxWindow
	minInflight  = 256 // after losses: twice what a responder keeps behind a gap
	inflightStep = 16  // by so many it opens in a round trip
)

// frameOverhead is what a packet of data takes on the wire beside its payload: Ethernet,
// IPv4, UDP, BTH and ICRC, as rates count.
const frameOverhead = 14 + 20 + 8 + 12 + 4

// Flight limits what queue pairs have outstanding to one destination together: in packets,
// requests without an answer and the answers that READs have asked for, as a receiver's
// frames are there once; and in bytes of SEND and WRITE, by congestion control (req_window_congestion.go).
// The limit of packets halves with losses and opens again. Retransmissions, probes and READ
// responses need no room. It belongs to the engine's thread.
//
// A queue pair whose next packet finds no room, or others in line before it, enters the line
// at its end (Waits). room is the only judge of who may leave it: Turn gives the turn to the
// first in line as soon as there is room for its packet, and to nobody before. Without the
// turn nobody may send anything new while others are in line. The turn ends with the burst
// that the engine allows (EndTurn), or where there is no room left: then its queue pair is
// the first in line again. So nobody overtakes, however many there are, and no room is left
// unused while somebody needs it.
type Flight struct {
	limit       uint32
	packets     uint32
	ackedRest   uint32 // packets answered that did not make a whole round trip
	decreasedAt Time

	window       uint64 // bytes, 0 = no limit
	bytes        uint64 // of frames of SEND and WRITE outstanding
	bypassWindow bool   // what is sent now does not mind the window and the line

	queueHead, queueTail *QP // the line
	serving              *QP // who has the turn; not in line
	dest                 destState
}

// NewFlight is that of a destination that nothing is known of.
func NewFlight() Flight { return Flight{limit: maxInflight} }

// Used is the number of packets outstanding.
func (f *Flight) Used() int { return int(f.packets) }

// Waiting reports that queue pairs are in line.
func (f *Flight) Waiting() bool { return f.queueHead != nil }

// Turn gives the turn to the first in line if nobody has it and the flight has room. It
// returns whose NextData is to be called therefore, or nil.
func (f *Flight) Turn() *QP {
	q := f.queueHead
	if q == nil || f.serving != nil || f.room(q.wantPackets, q.wantSize) == 0 {
		return nil
	}
	f.remove(q)
	f.serving = q
	return q
}

// HasTurn reports that the queue pair has the turn of its flight.
func (q *QP) HasTurn() bool { return q.flight != nil && q.flight.serving == q }

// EndTurn takes the turn from the queue pair, if it has it.
func (q *QP) EndTurn() {
	if q.HasTurn() {
		q.flight.serving = nil
	}
}

// SetFlight has the queue pair share a flight, or none, which is no limit.
func (q *QP) SetFlight(f *Flight) {
	if old := q.flight; old != nil {
		q.setInflight(0)
		q.EndTurn()
		old.remove(q)
	}
	q.flight = f
	q.updateInflight()
}

// Waits reports that the queue pair is in line.
func (q *QP) Waits() bool { return q.queued }

// updateInflight brings the flight up to date.
func (q *QP) updateInflight() {
	if q.flight == nil || q.cfg.Type != RC {
		return
	}
	r := &q.req
	q.setInflight(uint32(r.sndMax - r.oldestUnanswered()))
	if r.head == r.tail || q.state != RTS && q.state != SQD {
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
	if n < was && f.limit < maxInflight {
		if f.ackedRest += was - n; f.ackedRest >= f.limit {
			f.ackedRest = 0
			f.limit = min(f.limit+inflightStep, maxInflight)
		}
	}
}

// enqueue has the queue pair wait for room for n packets of size bytes each (room), at the
// end of the line or, if it has the turn, at its head.
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

// room is for how many of n packets there is room. They carry up to size bytes each, as
// frames; size 0: they are the answers to a READ, which can only go together. Half the limit
// is room enough for those, so that the next long READ is asked for while the last one's
// second half still comes.
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

// admit is room for the queue pair's next packets. It enters the line if that is none.
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
	}
	return 0
}

// mayServe reports that no other queue pair is before q.
func (f *Flight) mayServe(q *QP) bool {
	return f.serving == q || f.serving == nil && f.queueHead == nil || f.bypassWindow
}

// decreaseInflight closes the flight after a loss, once for all queue pairs that see it.
func (q *QP) decreaseInflight(now, roundTrip Time) {
	f := q.flight
	if f == nil || f.decreasedAt != 0 && now-f.decreasedAt < 2*roundTrip {
		return
	}
	f.limit, f.ackedRest, f.decreasedAt = max(min(f.limit, f.packets)/2, minInflight), 0, now
}
