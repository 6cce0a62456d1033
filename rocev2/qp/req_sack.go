// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

// receiveSACK takes a SACK (rocev2/sack.go). Whoever sends one keeps packets, also if
// we have not heard yet that there is an engine.
func (r *requester) receiveSACK(now Time, p *rocev2.Packet) {
	c := r.q.cfg.Count
	h, s := p.AETH(), p.SACK()
	n := r.unwrapPSN(p.BTH().PSN())
	if n < -1 || n < int64(r.oldestOutstanding())-1-sackWindow || n >= int64(r.sndMax) ||
		h.Syndrome().Type() != rocev2.AckPositive {
		c.StaleAnswer++
		return
	}
	c.SACKReceived++
	cum := uint64(n + 1)
	if cum >= r.sndUna {
		r.credit.heard(h)
		r.onAcked(now, cum)
		if r.q.state == Err {
			return
		}
	}
	var b bitmap
	b.hi, b.lo = s.Bits()
	b = b.shift(r.sndUna - min(cum, r.sndUna)).below(int(min(r.sndMax-r.sndUna, sackWindow)))
	if b == (bitmap{}) {
		return
	}
	k := r.scoreboard()
	fresh := b.and(k.there.not())
	if fresh != (bitmap{}) {
		k.arrived(fresh)
		k.there = k.there.or(b)
		k.lost = k.lost.and(b.not())
		// Not yet what takes back a retry: a peer that has restarted would keep our
		// packets for ever and never get on.
		tries := r.rto.retries
		r.onProgress(now)
		r.rto.retries = tries
	}
	slack := reorder
	if r.sndUna+uint64(k.there.len()) == r.sndMax { // nothing more will come to tell
		slack = 1
	}
	k.judge(slack)
	if k.lost != (bitmap{}) {
		r.sawLoss()
	}
}

func (r *requester) scoreboard() *board {
	if r.board == nil {
		r.board = &board{base: r.sndUna}
	}
	return r.board
}

// hole is a NAK PSN of a responder that keeps packets: sndUna is missing.
func (r *requester) hole(now Time) {
	k := r.scoreboard()
	if k.again.has(0) && int32(k.order-k.sent[r.sndUna%sackWindow].order) < reorder {
		return
	}
	k.lost.set(0)
	r.sawLoss()
}

// sawLoss has what is beyond the peer's reach sent again later, and closes the
// window once for all losses of one flight.
func (r *requester) sawLoss() {
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
		// The inside of a READ has no packets of its own.
		if w := r.at(i); w.isRead() && far > w.first {
			far = w.end()
		}
	}
	if far < r.sndNxt {
		r.rewind(far)
	}
}
