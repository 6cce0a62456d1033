// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// receiveAck processes an ACK, NAK or RNR NAK (IBTA 9.7.5.2, 9.7.6).
func (r *requester) receiveAck(now Time, p *rocev2.Packet) {
	c, h := r.q.cfg.Count, p.AETH()
	n := r.unwrapPSN(p.BTH().PSN())
	if n < int64(r.oldestOutstanding())-1 || n >= int64(r.sndMax) || h.Syndrome().Type() != rocev2.AckPositive && r.outside(n) {
		c.StaleAnswer++ // already acknowledged, or never sent
		return
	}
	switch h.Syndrome().Type() {
	case rocev2.AckPositive:
		if n+1 < int64(r.sndUna) {
			c.StaleAnswer++
			return
		}
		r.credit.onAETH(h)
		r.onAcked(now, uint64(n+1))
	case rocev2.AckRNR:
		r.onRNR(now, n, h.Syndrome().Value())
	case rocev2.AckNAK:
		code, _ := h.Syndrome().NAK()
		r.onNAK(now, n, code)
	default: // reserved (IBTA 9.7.5)
		c.Malformed++
	}
}

// onAcked notes that the peer has executed all packets before to.
func (r *requester) onAcked(now Time, to uint64) {
	r.impliedNAK(now, to)
	if to > r.sndUna {
		r.advanceUna(now, to)
		r.retire(now)
	}
}

// onNAK processes a NAK for packet n. The peer has executed the packets before n (IBTA
// 9.7.5.2).
func (r *requester) onNAK(now Time, n int64, code rocev2.NAKCode) {
	c := r.q.cfg.Count
	if n < 0 || n < int64(r.sndUna) && code == rocev2.NAKPSNSequence {
		c.StaleAnswer++
		return
	}
	status := verbs.StatusBadResponse // a reserved code
	switch code {
	case rocev2.NAKPSNSequence:
		c.SeqErr++
		r.onSequenceNAK(now, uint64(n))
		return
	case rocev2.NAKInvalidRequest:
		c.NakInvalid++
		status = verbs.StatusRemoteInvalidRequest
	case rocev2.NAKRemoteAccess:
		c.NakAccess++
		status = verbs.StatusRemoteAccess
	case rocev2.NAKRemoteOp:
		c.NakOperation++
		status = verbs.StatusRemoteOperation
	}
	if uint64(n) > r.sndUna {
		r.advanceUna(now, uint64(n))
		r.retire(now)
	}
	r.fail(now, uint64(n), status)
}

// fail ends the connection with an error of the work request of packet n.
func (r *requester) fail(now Time, n uint64, status verbs.Status) {
	if i := r.locate(n); i != r.tail {
		r.at(i).status = status
	}
	r.abort(now)
}

// abort is QP.fail for the requester. No NAK is sent: nothing leaves in ERR after an error
// of the requester (IBTA 10.3.1).
func (r *requester) abort(now Time) {
	if r.q.state != verbs.StateErr && r.q.state != verbs.StateReset {
		r.q.rsp.discard()
	}
	r.q.fail(now, 0)
}

// onSequenceNAK processes a NAK PSN: the peer expects packet n. It has dropped the packets
// after n, or buffered them if it is a softroce engine.
func (r *requester) onSequenceNAK(now Time, n uint64) {
	if r.rto.rnrUntil != 0 && n == r.rto.rnrPacket {
		return // rxe sends this NAK for packets after one that got an RNR NAK
	}
	r.onAcked(now, n)
	if r.q.state == verbs.StateErr {
		return
	}
	if r.nakAt != 0 && r.nakFor == n && now-r.nakAt < r.roundTrip() {
		return // n has been sent again already
	}
	if r.haltAt <= n {
		return
	}
	r.nakAt, r.nakFor = now, n
	r.silentAfterTimeout, r.rnrRejectedBefore = false, 0
	if r.q.attr.Selective {
		r.onGapNAK(now)
		return
	}
	r.window.onLoss(r.sndNxt-n, minWindowAfterNAK)
	r.q.decreaseInflight(now, r.roundTrip())
	r.rewind(n)
}

// advanceUna notes that all packets before to were executed.
func (r *requester) advanceUna(now Time, to uint64) {
	c := &r.rto
	n := to - r.sndUna
	r.q.addInflightBytes(-r.bytesBetween(r.sndUna, min(to, r.inflightEnd())))
	r.sndUna = to
	r.setGone(min(r.gone, uint32(r.sndMax-to)))
	if r.scoreboard != nil {
		r.scoreboard.advance(to)
	}
	if c.timing && to > c.timedPacket {
		c.timing = false
		r.sampleRTT(now)
	}
	r.window.acked(uint32(min(n, verbs.MaxOutstanding)))
	if r.rnrSlowStart != 0 {
		if r.rnrSlowStart += n; r.rnrSlowStart >= r.rnrSlowStartEnd {
			r.rnrSlowStart = 0
		}
	}
	if to > r.sndNxt {
		if r.suspectSpurious { // the response was late, not lost
			r.window.undo()
			to = r.sndMax
			r.extendInflight(to)
		}
		r.sndNxt, r.cur = to, r.locate(to)
	}
	if r.suspectSpurious && r.sndNxt == r.sndMax {
		r.suspectSpurious, r.window.undoSize = false, 0
	}
	if r.tlpOutstanding {
		r.onProbeAnswered()
	}
	r.onProgress(now)
}

// onProgress restarts the retransmission timer.
func (r *requester) onProgress(now Time) {
	r.tlpPending, r.silentAfterTimeout = false, false
	r.extendInflight(r.sndUna)
	r.rto.onProgress(now, r.rto.expectedBefore > r.sndUna || r.reads.n != 0)
}
