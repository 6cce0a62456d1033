// SPDX-License-Identifier: Apache-2.0

package qp

// Bounds of what is outstanding to one destination, in packets. A receiver of ours has
// 4096 frames, and a packet of PMTU 4096 takes two; others are not known to have fewer.
const (
	flightMost  = widest
	flightLeast = 256 // after losses: twice what a responder keeps behind a hole
	flightStep  = 16  // by so many it opens in a round trip
)

// frameBytes is what a packet of data takes on the wire beside its payload: Ethernet,
// IPv4, UDP, BTH and ICRC, as rates count.
const frameBytes = 14 + 20 + 8 + 12 + 4

// Flight limits what queue pairs have outstanding to one destination together: in packets,
// requests without an answer and the answers that READs have asked for, as a receiver's
// frames are there once; and in bytes of SEND and WRITE, by congestion control (req_window_congestion.go).
// The limit of packets halves with losses and opens again. Retransmissions, probes and READ
// responses need no room. It belongs to the engine's thread.
//
// A queue pair whose next packet finds no room, or others in line before it, enters the line
// at its end (Waits). fits is the only judge of who may leave it: Turn gives the turn to the
// first in line as soon as there is room for its packet, and to nobody before. Without the
// turn nobody may send anything new while others are in line. The turn ends with the burst
// that the engine allows (EndTurn), or where there is no room left: then its queue pair is
// the first in line again. So nobody overtakes, however many there are, and no room is left
// unused while somebody needs it.
type Flight struct {
	limit  uint32
	used   uint32
	rest   uint32 // packets answered that did not make a whole round trip
	shrunk Time

	window uint64 // bytes, 0 = no limit
	bytes  uint64 // of frames of SEND and WRITE outstanding
	past   bool   // what is sent now does not mind the window and the line

	first, last *QP // the line
	turn        *QP // who has the turn; not in line
	pulse       pulse
}

// NewFlight is that of a destination that nothing is known of.
func NewFlight() Flight { return Flight{limit: flightMost} }

// Used is the number of packets outstanding.
func (f *Flight) Used() int { return int(f.used) }

// Waiting reports that queue pairs are in line.
func (f *Flight) Waiting() bool { return f.first != nil }

// Turn gives the turn to the first in line if nobody has it and the flight has room. It
// returns whose NextData is to be called therefore, or nil.
func (f *Flight) Turn() *QP {
	q := f.first
	if q == nil || f.turn != nil || f.fits(q.need, q.needSize) == 0 {
		return nil
	}
	f.leaveLine(q)
	f.turn = q
	return q
}

// HasTurn reports that the queue pair has the turn of its flight.
func (q *QP) HasTurn() bool { return q.flight != nil && q.flight.turn == q }

// EndTurn takes the turn from the queue pair, if it has it.
func (q *QP) EndTurn() {
	if q.HasTurn() {
		q.flight.turn = nil
	}
}

// SetFlight has the queue pair share a flight, or none, which is no limit.
func (q *QP) SetFlight(f *Flight) {
	if old := q.flight; old != nil {
		q.setUnderWay(0)
		q.EndTurn()
		old.leaveLine(q)
	}
	q.flight = f
	q.account()
}

// Waits reports that the queue pair is in line.
func (q *QP) Waits() bool { return q.waits }

// account brings the flight up to date.
func (q *QP) account() {
	if q.flight == nil || q.cfg.Type != RC {
		return
	}
	r := &q.req
	q.setUnderWay(uint32(r.sndMax - r.oldestUnanswered()))
	if r.head == r.tail || q.state != RTS && q.state != SQD {
		q.flight.leaveLine(q)
	}
}

func (q *QP) setUnderWay(n uint32) {
	f, was := q.flight, q.underWay
	if n == was {
		return
	}
	q.underWay = n
	f.used += n - was
	if n == 0 {
		q.addBytes(-int64(q.flying))
	}
	if n < was && f.limit < flightMost {
		if f.rest += was - n; f.rest >= f.limit {
			f.rest = 0
			f.limit = min(f.limit+flightStep, flightMost)
		}
	}
}

// enterLine has the queue pair wait for room for n packets of size bytes each (fits), at the
// end of the line or, if it has the turn, at its head.
func (f *Flight) enterLine(q *QP, n, size uint32) {
	q.need, q.needSize = n, size
	if q.waits {
		return
	}
	q.waits = true
	switch {
	case f.first == nil:
		f.first, f.last = q, q
	case f.turn == q:
		q.next, f.first.prev, f.first = f.first, q, q
	default:
		q.prev, f.last.next, f.last = f.last, q, q
	}
	if f.turn == q {
		f.turn = nil
	}
}

func (f *Flight) leaveLine(q *QP) {
	if !q.waits {
		return
	}
	if q.prev != nil {
		q.prev.next = q.next
	} else {
		f.first = q.next
	}
	if q.next != nil {
		q.next.prev = q.prev
	} else {
		f.last = q.prev
	}
	q.waits, q.next, q.prev = false, nil, nil
}

// fits is for how many of n packets there is room. They carry up to size bytes each, as
// frames; size 0: they are the answers to a READ, which can only go together. Half the limit
// is room enough for those, so that the next long READ is asked for while the last one's
// second half still comes.
func (f *Flight) fits(n, size uint32) uint32 {
	switch {
	case f.used >= f.limit:
		return 0
	case size != 0:
		return f.fitsWindow(min(n, f.limit-f.used), size)
	case f.limit-f.used >= min(n, f.limit/2):
		return n
	}
	return 0
}

// mayFly is fits for the queue pair's next packets. It enters the line if that is none.
func (q *QP) mayFly(n, size uint32) uint32 {
	f := q.flight
	if f == nil {
		return n
	}
	if f.turn == q || f.turn == nil && f.first == nil || f.past {
		if k := f.fits(n, size); k != 0 {
			return k
		}
	}
	if !f.past {
		f.enterLine(q, n, size)
	}
	return 0
}

// flightLost closes the flight after a loss, once for all queue pairs that see it.
func (q *QP) flightLost(now, roundTrip Time) {
	f := q.flight
	if f == nil || f.shrunk != 0 && now-f.shrunk < 2*roundTrip {
		return
	}
	f.limit, f.rest, f.shrunk = max(min(f.limit, f.used)/2, flightLeast), 0, now
}
