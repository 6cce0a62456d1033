// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// receiveSACK processes a SACK (rocev2/sack.go). A peer that sends one buffers packets,
// also if HELLO has not announced it yet.
func (r *requester) receiveSACK(now Time, p *rocev2.Packet) {
	c := r.q.cfg.Count
	h, s := p.AETH(), p.SACK()
	n := r.unwrapPSN(p.BTH().PSN())
	if n < -1 || n < int64(r.oldestOutstanding())-1-sackWindow || n >= int64(r.sndMax) || r.outside(n+1) ||
		h.Syndrome().Type() != rocev2.AckPositive {
		c.StaleAnswer++
		return
	}
	c.SACKReceived++
	cum := uint64(n + 1)
	if cum >= r.sndUna {
		r.credit.onAETH(h)
		r.onAcked(now, cum)
		if r.q.state == verbs.StateErr {
			return
		}
	}
	var b bitmap
	b.hi, b.lo = s.Bits()
	b = b.shift(r.sndUna - min(cum, r.sndUna)).below(int(min(r.sndMax-r.sndUna, sackWindow)))
	if b == (bitmap{}) {
		return
	}
	sb := r.openScoreboard()
	newlySacked := b.and(sb.sacked.not())
	if newlySacked != (bitmap{}) {
		sb.onSacked(newlySacked)
		sb.sacked = sb.sacked.or(b)
		sb.lost = sb.lost.and(b.not())
		// A SACK alone does not reset the retries: a peer that has restarted would buffer
		// packets for ever and never make progress.
		tries := r.rto.retries
		r.onProgress(now)
		r.rto.retries = tries
	}
	thresh := dupThresh
	if r.sndUna+uint64(sb.sacked.len()) == r.sndMax { // no later packet can reveal the loss
		thresh = 1
	}
	sb.detectLost(thresh)
	if sb.lost != (bitmap{}) {
		r.enterRecovery()
	}
}

func (r *requester) openScoreboard() *scoreboard {
	if r.scoreboard == nil {
		r.scoreboard = &scoreboard{base: r.sndUna}
	}
	return r.scoreboard
}

// onGapNAK processes a NAK PSN of a responder that buffers packets: sndUna is missing.
func (r *requester) onGapNAK(now Time) {
	sb := r.openScoreboard()
	if sb.retransmitted.has(0) && int32(sb.order-sb.sent[r.sndUna%sackWindow].order) < dupThresh {
		return
	}
	sb.lost.set(0)
	r.enterRecovery()
}

// enterRecovery sets sndNxt back to the end of the SACK window, if it is after that. It
// closes the loss window once for all losses of one flight.
func (r *requester) enterRecovery() {
	r.rto.timing = false
	if r.sndUna >= r.recoveryPoint {
		r.window.onLoss(r.sndNxt-r.sndUna, sackWindow)
		r.q.decreaseInflight(r.now, r.roundTrip())
		r.recoveryPoint = r.sndMax
	}
	far := r.sndUna + sackWindow
	if r.sndNxt <= far {
		return
	}
	if i := r.locate(far); i != r.tail {
		// Packets inside a READ cannot be sent alone.
		if w := r.at(i); w.isRead() && far > w.first {
			far = w.end()
		}
	}
	if far < r.sndNxt {
		r.rewind(far)
	}
}
