// SPDX-License-Identifier: Apache-2.0

package qp

// What is done about loss. A standard responder keeps nothing behind a hole: all
// from the hole on is sent again (rewind). Another engine of ours keeps 128 packets
// and says which (SACK): only those that are missing are sent again (board).

// rewind has everything sent again from packet n on.
func (r *requester) rewind(n uint64) {
	r.nxt, r.cur = n, r.locate(n)
	r.sinceAck = 64 // the first one asks for an ACK
	r.clock.timing = false
	r.guessing = false
}

// nextRepair writes a packet that goes before the stream: one that a SACK showed
// as lost, a READ whose data is missing, or a probe.
func (r *requester) nextRepair(now Time, out *Outbound) bool {
	for r.board != nil && r.board.lost != (bitmap{}) {
		n := r.taken + uint64(r.board.lost.first())
		r.board.lost.clear(int(n - r.taken))
		i := r.locate(n)
		if i == r.tail || n >= r.max || n >= r.stopAt {
			continue
		}
		if w := r.at(i); !w.isRead() || n == w.first {
			r.clock.timing = false
			r.emit(now, out, i, w, n, true)
			return true
		}
	}
	if r.reads.asks != 0 {
		i := r.reads.first
		for range r.reads.n {
			w := r.at(i)
			if w.ask && w.status == Success {
				r.again(now, out, w, w.packets)
				return true
			}
			i = w.nextRead
		}
	}
	return r.probe && r.nextProbe(now, out)
}

// nextProbe sends the oldest packet that misses its answer once more. Of a responder
// that has it, it brings the state: any duplicate is acknowledged at once (IBTA
// 9.7.5.1). Of one that lacks it, it fills the hole, which the last packet would
// not: the hole has been reported, and rxe then drops what is behind it in silence.
// Of a READ it asks for one packet, as the peer may only be slow.
func (r *requester) nextProbe(now Time, out *Outbound) bool {
	r.probe = false
	if r.reads.n != 0 {
		if w := r.at(r.reads.first); w.end() <= r.taken && w.status == Success {
			w.seen, w.asked = max(w.seen, w.got+1), 0
			r.again(now, out, w, 1)
			out.Lost, out.Missed = false, 0
			w.probed = true
			return true
		}
	}
	i := r.locate(r.taken)
	if r.taken >= r.max || r.taken >= r.stopAt || i == r.tail {
		return false
	}
	w := r.at(i)
	if w.packets == 0 || w.isRead() && r.taken != w.first {
		return false
	}
	r.probing, r.probed = true, r.taken
	if w.isRead() {
		r.probed = w.end() - 1
	}
	r.emit(now, out, i, w, r.taken, true)
	out.Lost, out.Missed = false, 0
	return true
}

// heardOfProbe judges the first progress after a probe. If the peer has that packet
// now and nothing behind it, what was behind it is probably lost; it is sent again,
// one packet first. An answer to what was not sent again shows that it was only late.
func (r *requester) heardOfProbe() {
	r.probing = false
	if r.taken != r.probed+1 || r.nxt != r.max || r.taken >= r.max {
		return
	}
	r.window.silent(r.max - r.taken)
	r.rewind(r.taken)
	r.guessing = true
}
