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
// Retransmissions, probes and READ responses need no room. What the peer has refused (RNR NAK) or
// a timeout has found lost is not outstanding until it is sent again. A Flight belongs to the
// engine's thread.
//
// A queue pair whose next packet finds no room is queued (req_inflight_queue.go). So is one
// that finds queue pairs before it. ServeNext removes the next one from its queue as soon
// as there is room for its packet: from then on it is served. Service ends with a long
// READ, and otherwise with the burst that the engine allows (EndService). If there is no
// room left before, the queue pair becomes the head of its queue again.
type Flight struct {
	limit       uint32
	packets     uint32
	ackedRest   uint32 // packets acknowledged since the last increase
	decreasedAt Time

	window       uint64 // bytes, 0 = no limit
	bytes        uint64 // frames of SEND and WRITE outstanding
	lostBytes    uint64 // all that were taken off bytes because they were refused or lost
	gone         uint32 // packets of all queue pairs that are refused or lost (requester.gone)
	answeredAt   Time   // last acknowledgement of outstanding packets
	bypassWindow bool   // window and queue do not apply to the packets sent now

	short, long flightQueue
	serving     *QP    // being served, not queued; or nil
	longReads   uint32 // queue pairs with long READs outstanding
	shortLead   int32  // packets of the short queue admitted more than of the long one, see longTurn
	dest        destState
	silence     silence
}

// NewFlight returns the limiter of a destination without history.
func NewFlight() Flight { return Flight{limit: maxInflight} }

// Used returns the number of packets outstanding.
func (f *Flight) Used() int { return int(f.packets) }

// Busy reports that packets have no response yet. Those that are refused or lost count too.
func (f *Flight) Busy() bool { return f.packets != 0 || f.gone != 0 }

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
		old.gone -= q.req.gone
	}
	q.flight = f
	if f != nil {
		f.gone += q.req.gone
	}
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
	q.setInflight(uint32(r.inflightEnd() - r.oldestUnanswered()))
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
	if q.longInflight != 0 {
		if q.longInflight -= min(q.longInflight, was-n); q.longInflight == 0 {
			f.longReads--
		}
	}
	f.answeredAt = max(f.answeredAt, q.req.now) // 0 after RESET and ERR
	if f.limit < maxInflight {
		if f.ackedRest += was - n; f.ackedRest >= f.limit {
			f.ackedRest = 0
			f.limit = min(f.limit+inflightStep, maxInflight)
		}
	}
}

// inflightEnd returns the end of the packets in flight. The packets from there to sndMax were sent,
// but the peer has refused or lost them. They count again when they are sent again.
func (r *requester) inflightEnd() uint64 { return r.sndMax - uint64(r.gone) }

// loseInflight notes that the packets from n on are not in flight any more. n is oldestUnanswered or later. Responses
// that executed READs miss count again from the next one on (requester.onProgress).
// This is no acknowledgement: the limit does not grow, and the destination may still be silent.
func (r *requester) loseInflight(n uint64) {
	end := r.inflightEnd()
	if n >= end {
		return
	}
	if f := r.q.flight; f != nil {
		before := f.bytes
		r.q.addInflightBytes(-r.bytesBetween(max(n, r.sndUna), max(end, r.sndUna)))
		f.lostBytes += before - f.bytes
	}
	r.setGone(uint32(r.sndMax - n))
	r.q.dropInflight(uint32(end - n))
}

// dropInflight takes n packets, the newest, off those in flight.
func (q *QP) dropInflight(n uint32) {
	n = min(n, q.inflightPackets)
	if n == 0 {
		return
	}
	q.inflightPackets -= n
	q.flight.packets -= n
	if q.longInflight > q.inflightPackets {
		if q.longInflight = q.inflightPackets; q.longInflight == 0 {
			q.flight.longReads--
		}
	}
}

// extendInflight notes that the packets before to are in flight again. They have been sent before.
func (r *requester) extendInflight(to uint64) {
	if end := r.inflightEnd(); to > end {
		r.q.addInflightBytes(r.frameBytes(max(end, r.sndUna), to))
		r.setGone(uint32(r.sndMax - to))
	}
}

// setGone sets how many packets before sndMax are not in flight.
func (r *requester) setGone(n uint32) {
	if f := r.q.flight; f != nil {
		f.gone += n - r.gone
	}
	r.gone = n
}

// room returns for how many of n packets there is room. size is the largest frame in
// bytes. size 0 means the responses to a READ, which are admitted together. Half the limit
// is enough for them, so that the next long READ is requested while the second half of the
// last one is outstanding. So READs as long as the limit take what is outstanding to one
// and a half times the limit. Next to a long READ, a short one has room up to there too:
// it does not have to wait until half of a long one has arrived.
func (f *Flight) room(n, size uint32) uint32 {
	limit := f.limit
	if size != 0 {
		if f.packets >= limit {
			return 0
		}
		return f.windowRoom(min(n, limit-f.packets), size)
	}
	need := min(n, limit/2)
	if f.longReads != 0 && n <= shortRead {
		limit += limit / 2
	}
	if f.packets+need > limit {
		return 0
	}
	return n
}

// admit returns how many of the queue pair's next packets may leave. If none may, it
// enqueues the queue pair. The limits may have become smaller since it sent its last
// packets, and none of those may have requested an ACK: its timer has to run.
func (q *QP) admit(n, size uint32) uint32 {
	f := q.flight
	if f == nil {
		return n
	}
	if f.mayServe(q, n, size) {
		if k := f.room(n, size); k != 0 {
			if size == 0 || f.long.head != nil { // else there are no turns to count
				f.onAdmitted(q, n, size)
			}
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

// decreaseInflight halves the limit after a loss, once for all queue pairs that see it.
func (q *QP) decreaseInflight(now, roundTrip Time) {
	f := q.flight
	if f == nil || f.decreasedAt != 0 && now-f.decreasedAt < 2*roundTrip {
		return
	}
	f.limit, f.ackedRest, f.decreasedAt = max(min(f.limit, f.packets)/2, minInflight), 0, now
}
