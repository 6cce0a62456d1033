// SPDX-License-Identifier: Apache-2.0

package qp

// What is done about loss. A standard responder keeps nothing behind a gap: all
// from the gap on is sent again (rewind). Another engine of ours keeps 128 packets
// and says which (SACK): only those that are missing are sent again (scoreboard).

// rewind has everything sent again from packet n on.
func (r *requester) rewind(n uint64) {
	r.sndNxt, r.cur = n, r.locate(n)
	r.sinceAck = 64 // the first one asks for an ACK
	r.rto.timing = false
	r.suspectSpurious = false
}

// nextRetransmit writes a packet that goes before the stream: one that a SACK showed
// as lost, a READ whose data is missing, or a probe.
func (r *requester) nextRetransmit(now Time, out *Outbound) bool {
	for r.scoreboard != nil && r.scoreboard.lost != (bitmap{}) {
		n := r.sndUna + uint64(r.scoreboard.lost.first())
		r.scoreboard.lost.clear(int(n - r.sndUna))
		i := r.locate(n)
		if i == r.tail || n >= r.sndMax || n >= r.haltAt {
			continue
		}
		if w := r.at(i); !w.isRead() || n == w.first {
			r.rto.timing = false
			r.emit(now, out, i, w, n, true)
			return true
		}
	}
	if r.reads.requested != 0 {
		i := r.reads.first
		for range r.reads.n {
			w := r.at(i)
			if w.again && w.status == Success {
				r.requestAgain(now, out, w, w.packets)
				return true
			}
			i = w.nextRead
		}
	}
	return r.tlpPending && r.nextProbe(now, out)
}

// nextProbe sends the oldest packet that misses its answer once more. Of a responder
// that has it, it brings the state: any duplicate is acknowledged at once (IBTA
// 9.7.5.1). Of one that lacks it, it fills the gap, which the last packet would
// not: the gap has been reported, and rxe then drops what is behind it in silence.
// Of a READ it asks for one packet, as the peer may only be slow.
func (r *requester) nextProbe(now Time, out *Outbound) bool {
	r.tlpPending = false
	if r.reads.n != 0 {
		if w := r.at(r.reads.first); w.end() <= r.sndUna && w.status == Success {
			w.highest, w.requestedTo = max(w.highest, w.received+1), 0
			r.requestAgain(now, out, w, 1)
			out.Lost, out.Missed = false, 0
			w.onePacket = true
			return true
		}
	}
	i := r.locate(r.sndUna)
	if r.sndUna >= r.sndMax || r.sndUna >= r.haltAt || i == r.tail {
		return false
	}
	w := r.at(i)
	if w.packets == 0 || w.isRead() && r.sndUna != w.first {
		return false
	}
	r.tlpOutstanding, r.tlpPSN = true, r.sndUna
	if w.isRead() {
		r.tlpPSN = w.end() - 1
	}
	r.emit(now, out, i, w, r.sndUna, true)
	out.Lost, out.Missed = false, 0
	return true
}

// onProbeAnswered judges the first progress after a probe. If the peer has that packet
// now and nothing behind it, what was behind it is probably lost; it is sent again,
// one packet first. An answer to what was not sent again shows that it was only late.
func (r *requester) onProbeAnswered() {
	r.tlpOutstanding = false
	if r.sndUna != r.tlpPSN+1 || r.sndNxt != r.sndMax || r.sndUna >= r.sndMax {
		return
	}
	r.window.onSilence(r.sndMax - r.sndUna)
	r.rewind(r.sndUna)
	r.suspectSpurious = true
}
