// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2/verbs"

// Retransmission. A standard responder drops all packets after a gap: all packets from the
// gap on are sent again (rewind, go-back-N). A softroce peer buffers up to 128 packets and
// reports them (SACK): only the missing packets are sent again (scoreboard).

// rewind sets sndNxt back to packet n.
func (r *requester) rewind(n uint64) {
	r.sndNxt, r.cur = n, r.locate(n)
	r.sinceAck = 64 // the first one requests an ACK
	r.rto.timing = false
	r.suspectSpurious = false
}

// nextRetransmit writes a packet that goes before the stream: one that SACK shows as lost,
// a READ request for missing data, or a probe.
func (r *requester) nextRetransmit(now Time, out *Outbound) bool {
	for r.scoreboard != nil && r.scoreboard.lost != (bitmap{}) {
		n := r.sndUna + uint64(r.scoreboard.lost.first())
		r.scoreboard.lost.clear(int(n - r.sndUna))
		if i, ok := r.retransmittable(n); ok {
			r.rto.timing = false
			r.emit(now, out, i, r.at(i), n, true)
			return true
		}
	}
	if w := r.reads.toRequest(r); w != nil {
		r.requestAgain(now, out, w, w.packets)
		return true
	}
	return r.tlpPending && r.nextProbe(now, out)
}

// retransmittable returns the index of the work request of packet n, which was sent. It
// is not ok if the packet has none that may be sent again: the memory is bad, or n is
// inside a READ, which has no packets of its own.
func (r *requester) retransmittable(n uint64) (i uint32, ok bool) {
	i = r.locate(n)
	if i == r.tail || n >= r.sndMax || n >= r.haltAt {
		return i, false
	}
	w := r.at(i)
	return i, w.packets != 0 && (!w.isRead() || n == w.first)
}

// probesRead reports that a probe asks for data of w, the oldest READ or ATOMIC: its
// request was executed.
func (r *requester) probesRead(w *wqe) bool {
	return w.end() <= r.sndUna && w.status == verbs.StatusSuccess
}

// retransmitDue reports that nextRetransmit has a packet.
func (r *requester) retransmitDue() bool {
	if r.scoreboard != nil {
		for lost := r.scoreboard.lost; lost != (bitmap{}); lost.clear(lost.first()) {
			if _, ok := r.retransmittable(r.sndUna + uint64(lost.first())); ok {
				return true
			}
		}
	}
	if r.reads.toRequest(r) != nil {
		return true
	}
	if !r.tlpPending {
		return false
	}
	_, ok := r.retransmittable(r.sndUna)
	return ok || r.reads.n != 0 && r.probesRead(r.at(r.reads.first))
}

// nextProbe sends the oldest packet without a response again. A responder that has the
// packet acknowledges the duplicate at once (IBTA 9.7.5.1). A responder that lacks it gets
// the gap filled. The newest packet would not do that: the responder has reported the gap
// already, and rxe then drops later packets without a response. The probe of a READ
// requests one packet, because the peer may only be slow.
func (r *requester) nextProbe(now Time, out *Outbound) bool {
	r.tlpPending = false
	if r.reads.n != 0 {
		if w := r.at(r.reads.first); r.probesRead(w) {
			w.highest, w.requestedTo = max(w.highest, w.received+1), 0
			r.requestAgain(now, out, w, 1)
			out.Lost, out.Missed = false, 0
			w.onePacket, w.timed = true, false
			return true
		}
	}
	i, ok := r.retransmittable(r.sndUna)
	if !ok {
		return false
	}
	w := r.at(i)
	r.tlpOutstanding, r.tlpPSN = true, r.sndUna
	if w.isRead() {
		r.tlpPSN = w.end() - 1
	}
	r.emit(now, out, i, w, r.sndUna, true)
	out.Lost, out.Missed = false, 0
	return true
}

// onProbeAnswered evaluates the first progress after a probe. If the peer has exactly the
// probe's packet, the packets after it are probably lost: they are sent again, one packet
// first. A response to a packet that was not sent again shows that they were only late.
func (r *requester) onProbeAnswered() {
	r.tlpOutstanding = false
	if r.sndUna != r.tlpPSN+1 || r.sndNxt != r.sndMax || r.sndUna >= r.sndMax {
		return
	}
	r.window.onSilence(r.sndMax - r.sndUna)
	r.rewind(r.sndUna)
	r.suspectSpurious = true
}
