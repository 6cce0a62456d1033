// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// onRNR processes an RNR NAK: packet n and all after it are sent again after a wait (IBTA
// 9.7.5.2, table 45).
func (r *requester) onRNR(now Time, at int64, code uint8) {
	q, c := r.q, &r.rto
	if at < int64(r.sndUna) {
		q.cfg.Count.StaleAnswer++
		return
	}
	n := uint64(at)
	if c.rnrUntil != 0 && n <= c.rnrPacket {
		return // a duplicate during the wait
	}
	q.cfg.Count.RNRReceived++
	r.onAcked(now, n)
	if q.state == verbs.StateErr {
		return
	}
	if n != c.rnrPacket {
		c.rnrPacket, c.rnrRetries = n, 0
	}
	const forEver = 7
	if q.attr.RNRRetry != forEver {
		if c.rnrRetries >= q.attr.RNRRetry {
			q.cfg.Count.RNRRetryExceeded++
			r.fail(now, n, verbs.StatusRNRRetryExceeded)
			return
		}
		c.rnrRetries++
	}
	c.rnrUntil = max(now+Time(rocev2.RNRTime(code)), 1)
	c.since, r.tlpPending, r.tlpOutstanding = 0, false, false
	c.retries, c.probes = 0, 0 // the peer responds
	r.silentAfterTimeout, r.rnrRejectedBefore = false, r.sndMax
	if r.scoreboard != nil { // packet n was refused, even if it had been buffered
		r.scoreboard.sacked.clear(0)
	}
	r.loseInflight(n)
	r.rewind(n)
	r.startRNRSlowStart(n)
}

// startRNRSlowStart limits the stream after an RNR NAK for packet n. The limit doubles each
// round trip. It begins with the message that found no receive: otherwise a receiver that
// is short of receives would refuse a whole window each time and take one message of it. A
// standard responder drops the packets after n, so the loss window closes as after a loss,
// but not below that message. A softroce peer buffers the message: one packet is enough.
func (r *requester) startRNRSlowStart(n uint64) {
	r.rnrSlowStart, r.rnrSlowStartEnd = 0, r.sndMax-n
	i := r.locate(n)
	if i == r.tail {
		return
	}
	message := max(r.at(i).end()-n, 1)
	if !r.q.attr.Selective {
		r.window.onLoss(r.rnrSlowStartEnd, uint32(min(max(message, minWindowAfterNAK), maxWindow)))
	} else {
		message = 1
	}
	if message < r.rnrSlowStartEnd {
		r.rnrSlowStart = message
	}
}

// endRNRWait sends the refused packet again. NAKs for it that are still in flight are old.
func (r *requester) endRNRWait(now Time) {
	c := &r.rto
	c.rnrUntil = 0
	r.nakAt, r.nakFor = now, c.rnrPacket
	if r.reads.n != 0 || r.sndUna < r.sndMax {
		c.restart(now) // the timer was off during the wait
	}
}
