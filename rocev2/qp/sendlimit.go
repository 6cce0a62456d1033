// SPDX-License-Identifier: Apache-2.0

package qp

// reach is the packet that must wait by the queue pair's own rules.
func (r *requester) reach(w *wqe) uint64 {
	end := r.taken + uint64(r.window.size)
	if r.ramp != 0 {
		end = min(end, r.taken+r.ramp)
	}
	if r.board != nil && r.board.open() {
		end = min(end, r.taken+holdable) // the responder drops what is beyond
	}
	// All PSNs of a READ are outstanding at once.
	oldest, n := r.oldest(), uint64(1)
	if w.isRead() {
		n = uint64(w.packets)
		if r.reads.n != 0 && r.nxt > oldest && r.nxt+n > r.awaited()+widest+widest/2 {
			return 0
		}
	}
	if r.nxt+n > oldest+maxOutstanding {
		return 0
	}
	return min(end, r.stopAt)
}

// limit is the packet that must wait, if nxt is new also for room in the flight.
func (r *requester) limit(w *wqe) uint64 {
	end := r.reach(w)
	if r.nxt != r.max || r.nxt >= end {
		return end
	}
	if w.isRead() {
		if r.q.mayFly(w.packets, 0) == 0 {
			return 0
		}
		return end
	}
	n := r.q.mayFly(uint32(end-r.nxt), w.sizeOf(r.nxt, r.q.attr.PMTU)+frameBytes)
	return min(end, r.nxt+uint64(n))
}

// ready reports that the next packet may leave by the queue pair's own rules, and only waits
// for its turn among others.
func (r *requester) ready() bool {
	if r.cur == r.tail || r.clock.rnrUntil != 0 {
		return false
	}
	w := r.at(r.cur)
	if w.packets == 0 || r.nxt == r.max && r.nxt == w.first && !r.mayBegin(w) {
		return false
	}
	return r.nxt < r.reach(w)
}

// oldest is the first packet whose answer is outstanding.
func (r *requester) oldest() uint64 {
	if r.reads.n != 0 {
		return min(r.at(r.reads.first).first, r.taken)
	}
	return r.taken
}

// awaited is the first packet that nothing was heard of: of a READ, the first answer.
func (r *requester) awaited() uint64 {
	if r.reads.n == 0 {
		return r.taken
	}
	w := r.at(r.reads.first)
	return min(r.taken, w.first+uint64(w.got))
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
