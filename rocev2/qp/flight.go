// SPDX-License-Identifier: Apache-2.0

package qp

// Bounds of what is on its way to one destination, in packets. A receiver of ours has
// 4096 frames, and a packet of PMTU 4096 takes two; others are not known to have fewer.
const (
	flightMost  = widest
	flightLeast = 256 // after losses: twice what a responder keeps behind a hole
	flightStep  = 16  // by so many it opens in a round trip
	shareLeast  = 4   // of one queue pair, however many there are
	plenty      = 64  // room for so many needs no closer look
)

// frameBytes is what a packet of data takes on the wire beside its payload: Ethernet,
// IPv4, UDP, BTH and ICRC, as rates count.
const frameBytes = 14 + 20 + 8 + 12 + 4

// Flight is what queue pairs have on its way to one destination together: requests
// without an answer, and the answers that READs have asked for. Each has a window of
// its own, but a receiver's frames are there once. Whoever has less than its share may
// always send; beyond that, as long as all together have less than the limit. It
// halves with losses and opens again. Congestion control limits the bytes of SEND and
// WRITE beside that (feed.go). It belongs to the engine's thread.
type Flight struct {
	limit   uint32
	used    uint32
	users   uint32 // queue pairs that have something under way
	waiting uint32 // and those that have a READ to send and nothing under way
	rest    uint32 // packets answered that did not make a whole round trip
	shrunk  Time

	window  uint64 // bytes, 0 = no limit
	bytes   uint64 // of frames of SEND and WRITE under way
	refused uint32 // queue pairs that wait for room in the window
	past    bool   // what is sent now does not mind the window
}

// NewFlight is that of a destination that nothing is known of.
func NewFlight() Flight { return Flight{limit: flightMost} }

// Room reports that a queue pair that waits may send.
func (f *Flight) Room() bool { return f.used < f.limit && f.open() }

// Used is the number of packets.
func (f *Flight) Used() int { return int(f.used) }

// SetFlight has the queue pair share a flight, or none, which is no limit.
func (q *QP) SetFlight(f *Flight) {
	if old := q.flight; old != nil {
		q.setUnderWay(0)
		q.setWaits(false)
		q.setRefused(false)
	}
	q.flight = f
	q.account()
}

// Waits reports that the queue pair has something to send for which there is no room,
// and perhaps nothing under way whose answer would have it called again: when the Flight
// has room it wants NextData.
func (q *QP) Waits() bool { return q.waits || q.refused }

// account brings the flight up to date.
func (q *QP) account() {
	if q.flight == nil || q.cfg.Type != RC {
		return
	}
	r := &q.req
	q.setUnderWay(uint32(r.max - r.awaited()))
	if q.underWay != 0 || r.head == r.tail || q.state != RTS {
		q.setWaits(false)
	}
	if r.head == r.tail || q.state != RTS && q.state != SQD {
		q.setRefused(false)
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
	switch {
	case was == 0:
		f.users++
	case n == 0:
		f.users--
	}
	if n < was && f.limit < flightMost {
		if f.rest += was - n; f.rest >= f.limit {
			f.rest = 0
			f.limit = min(f.limit+flightStep, flightMost)
		}
	}
}

func (q *QP) setWaits(on bool) {
	switch {
	case on == q.waits:
		return
	case on:
		q.flight.waiting++
	default:
		q.flight.waiting--
	}
	q.waits = on
}

// mayFly is how many of n packets the flight has room for. They carry up to size bytes
// each; 0: they are answers to a READ, which can only go together.
func (q *QP) mayFly(n, size uint32) uint32 {
	f, mine, whole := q.flight, q.underWay, size == 0
	if f == nil {
		return n
	}
	if !whole {
		if n = q.mayFeed(n, size); n == 0 {
			return 0
		}
	}
	room := uint32(0)
	if f.used < f.limit && (f.waiting == 0 || q.waits) {
		if room = f.limit - f.used; room >= n || !whole && room >= plenty {
			return min(room, n) // mostly; the share costs a division
		}
	}
	users := f.users + f.waiting
	if mine == 0 && !q.waits {
		users++
	}
	if share := max(f.limit/max(users, 1), shareLeast); mine < share {
		room = max(room, share-mine)
	}
	if !whole || room >= n {
		return min(room, n)
	}
	if room >= f.limit/2 {
		return n // a long READ, asked for while the last one's second half still comes
	}
	if mine == 0 {
		if f.used < f.limit {
			return n // however long it is: else it might wait for ever
		}
		q.setWaits(true)
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
