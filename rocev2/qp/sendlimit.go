// SPDX-License-Identifier: Apache-2.0

package qp

// ownLimit is the packet that must wait by the queue pair's own rules.
func (r *requester) ownLimit(w *wqe) uint64 {
	end := r.sndUna + uint64(r.window.size)
	if r.rnrSlowStart != 0 {
		end = min(end, r.sndUna+r.rnrSlowStart)
	}
	if r.scoreboard != nil && r.scoreboard.hasGap() {
		end = min(end, r.sndUna+sackWindow) // the responder drops what is beyond
	}
	// All PSNs of a READ are outstanding at once.
	oldest, n := r.oldestOutstanding(), uint64(1)
	if w.isRead() {
		n = uint64(w.packets)
		if r.reads.n != 0 && r.sndNxt > oldest && r.sndNxt+n > r.oldestUnanswered()+maxWindow+maxWindow/2 {
			return 0
		}
	}
	if r.sndNxt+n > oldest+maxOutstanding {
		return 0
	}
	return min(end, r.haltAt)
}

// sendLimit is the packet that must wait, if sndNxt is new also for room in the flight.
func (r *requester) sendLimit(w *wqe) uint64 {
	end := r.ownLimit(w)
	if r.sndNxt != r.sndMax || r.sndNxt >= end {
		return end
	}
	if w.isRead() {
		if r.q.admit(w.packets, 0) == 0 {
			return 0
		}
		return end
	}
	n := r.q.admit(uint32(end-r.sndNxt), w.sizeOf(r.sndNxt, r.q.attr.PMTU)+frameOverhead)
	return min(end, r.sndNxt+uint64(n))
}

// readyToSend reports that the next packet may leave by the queue pair's own rules, and only waits
// for its turn among others.
func (r *requester) readyToSend() bool {
	if r.cur == r.tail || r.rto.rnrUntil != 0 {
		return false
	}
	w := r.at(r.cur)
	if w.packets == 0 || r.sndNxt == r.sndMax && r.sndNxt == w.first && !r.mayBegin(w) {
		return false
	}
	return r.sndNxt < r.ownLimit(w)
}

// oldestOutstanding is the first packet whose answer is outstanding.
func (r *requester) oldestOutstanding() uint64 {
	if r.reads.n != 0 {
		return min(r.at(r.reads.first).first, r.sndUna)
	}
	return r.sndUna
}

// oldestUnanswered is the first packet that nothing was heard of: of a READ, the first answer.
func (r *requester) oldestUnanswered() uint64 {
	if r.reads.n == 0 {
		return r.sndUna
	}
	w := r.at(r.reads.first)
	return min(r.sndUna, w.first+uint64(w.received))
}

// mayBegin reports whether the next work request may begin, after those before it:
// not in SQD (IBTA 10.3.1), not beyond MaxRdAtomic, and with Fence not before all
// READs and ATOMICs have their data (IBTA 10.8.3).
func (r *requester) mayBegin(w *wqe) bool {
	if r.q.state == SQD {
		return false
	}
	if w.flags&Fence != 0 && r.reads.n != 0 {
		return false
	}
	return !w.isRead() || r.reads.n < uint32(r.q.attr.MaxRdAtomic)
}
