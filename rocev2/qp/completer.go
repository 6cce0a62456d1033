// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
)

// receiveAck takes an ACK, NAK or RNR NAK (IBTA 9.7.5.2, 9.7.6).
func (r *requester) receiveAck(now Time, p *rocev2.Packet) {
	c, h := r.q.cfg.Count, p.AETH()
	n := r.number(p.BTH().PSN())
	if n < int64(r.oldest())-1 || n >= int64(r.max) {
		c.StaleAnswer++ // of what was answered before, or never asked
		return
	}
	switch h.Syndrome().Type() {
	case rocev2.AckPositive:
		if n+1 < int64(r.taken) {
			c.StaleAnswer++
			return
		}
		r.credit.heard(h)
		r.acknowledged(now, uint64(n+1))
	case rocev2.AckRNR:
		r.notReady(now, n, h.Syndrome().Value())
	case rocev2.AckNAK:
		code, _ := h.Syndrome().NAK()
		r.refused(now, n, code)
	default: // reserved (IBTA 9.7.5)
		c.Malformed++
	}
}

// acknowledged notes that the peer has executed all before packet to.
func (r *requester) acknowledged(now Time, to uint64) {
	r.impliedNAK(now, to)
	if to > r.taken {
		r.advance(now, to)
		r.retire(now)
	}
}

// refused takes a NAK for packet n; those before it have been executed (IBTA
// 9.7.5.2).
func (r *requester) refused(now Time, n int64, code rocev2.NAKCode) {
	c := r.q.cfg.Count
	if n < 0 || n < int64(r.taken) && code == rocev2.NAKPSNSequence {
		c.StaleAnswer++
		return
	}
	status := BadResponse // a reserved code
	switch code {
	case rocev2.NAKPSNSequence:
		c.SeqErr++
		r.outOfSequence(now, uint64(n))
		return
	case rocev2.NAKInvalidRequest:
		c.NakInvalid++
		status = RemoteInvalidRequest
	case rocev2.NAKRemoteAccess:
		c.NakAccess++
		status = RemoteAccess
	case rocev2.NAKRemoteOp:
		c.NakOperation++
		status = RemoteOperation
	}
	if uint64(n) > r.taken {
		r.advance(now, uint64(n))
		r.retire(now)
	}
	r.fail(now, uint64(n), status)
}

// fail ends the connection with the work request that packet n belongs to.
func (r *requester) fail(now Time, n uint64, status Status) {
	if i := r.locate(n); i != r.tail {
		r.at(i).status = status
	}
	r.broke(now)
}

// broke is QP.fail for the requester. No NAK of ours tells the peer, and nothing else
// leaves in ERR (IBTA 10.3.1).
func (r *requester) broke(now Time) {
	if r.q.state != Err && r.q.state != Reset {
		r.q.rsp.silence()
	}
	r.q.fail(now, 0)
}

// outOfSequence is a NAK PSN: packet n is the one that the peer expects, and what
// was sent behind it is lost, or kept by another engine of ours.
func (r *requester) outOfSequence(now Time, n uint64) {
	if r.clock.rnrUntil != 0 && n == r.clock.rnrFor {
		return // rxe refuses so what follows a packet that it was not ready for
	}
	r.acknowledged(now, n)
	if r.q.state == Err {
		return
	}
	if r.nakAt != 0 && r.nakFor == n && now-r.nakAt < r.roundTrip() {
		return // n is on its way already
	}
	if r.stopAt <= n {
		return
	}
	r.nakAt, r.nakFor = now, n
	r.unheard, r.notTaken = false, 0
	if r.q.attr.Selective {
		r.hole(now)
		return
	}
	r.window.lost(r.nxt-n, minWindow)
	r.q.flightLost(now, r.roundTrip())
	r.rewind(n)
}

// notReady is an RNR NAK: packet n, and all behind it, are to come again after a
// while (IBTA 9.7.5.2, table 45).
func (r *requester) notReady(now Time, at int64, code uint8) {
	q, c := r.q, &r.clock
	if at < int64(r.taken) {
		q.cfg.Count.StaleAnswer++
		return
	}
	n := uint64(at)
	if c.rnrUntil != 0 && n <= c.rnrFor {
		return // the same again, while we wait
	}
	q.cfg.Count.RNRReceived++
	r.acknowledged(now, n)
	if q.state == Err {
		return
	}
	if n != c.rnrFor {
		c.rnrFor, c.rnrTries = n, 0
	}
	const forEver = 7
	if q.attr.RNRRetry != forEver {
		if c.rnrTries >= q.attr.RNRRetry {
			q.cfg.Count.RNRRetryExceeded++
			r.fail(now, n, RNRRetryExceeded)
			return
		}
		c.rnrTries++
	}
	c.rnrUntil = max(now+Time(rocev2.RNRTime(code)), 1)
	c.due, r.probe, r.probing = 0, false, false
	c.tries, c.probes = 0, 0 // the peer is there
	r.unheard, r.notTaken = false, r.max
	if r.board != nil { // it was refused, even if it had been kept
		r.board.there.clear(0)
	}
	r.rewind(n)
	r.slowly(n)
}

// slowly lets the stream begin again after an RNR NAK for packet n, and then with twice
// as much each round trip. It begins with the message that found no receive: else a
// receiver that is short of receives would refuse a whole window each time, of which it
// takes one message. A standard responder drops what is behind, so that the window
// closes as after a loss, but not below that message. Another engine of ours keeps the
// message: its first packet will do.
func (r *requester) slowly(n uint64) {
	r.ramp, r.rampTo = 0, r.max-n
	i := r.locate(n)
	if i == r.tail {
		return
	}
	message := max(r.at(i).end()-n, 1)
	if !r.q.attr.Selective {
		r.window.lost(r.rampTo, uint32(min(max(message, minWindow), widest)))
	} else {
		message = 1
	}
	if message < r.rampTo {
		r.ramp = message
	}
}

// endRNR has the packet sent again that the peer was not ready for. NAKs for it
// that are still on their way are old.
func (r *requester) endRNR(now Time) {
	c := &r.clock
	c.rnrUntil = 0
	r.nakAt, r.nakFor = now, c.rnrFor
	if r.reads.n != 0 || r.taken < r.max {
		c.start(now) // as it was before the wait
	}
}

// advance notes that all before packet to were executed.
func (r *requester) advance(now Time, to uint64) {
	c := &r.clock
	n := to - r.taken
	r.q.addBytes(-r.bytesBetween(r.taken, to))
	r.taken = to
	if r.board != nil {
		r.board.advance(to)
	}
	if c.timing && to > c.timed {
		c.timing = false
		r.sample(now)
	}
	r.window.acked(uint32(min(n, maxOutstanding)))
	if r.ramp != 0 {
		if r.ramp += n; r.ramp >= r.rampTo {
			r.ramp = 0
		}
	}
	if to > r.nxt {
		if r.guessing { // it was not lost, only late
			r.window.falseAlarm()
			to = r.max
		}
		r.nxt, r.cur = to, r.locate(to)
	}
	if r.guessing && r.nxt == r.max {
		r.guessing, r.window.before = false, 0
	}
	if r.probing {
		r.heardOfProbe()
	}
	r.progress(now)
}

// progress restarts the clock.
func (r *requester) progress(now Time) {
	r.probe, r.unheard = false, false
	r.clock.progress(now, r.clock.expected > r.taken || r.reads.n != 0)
}

// retire completes the work requests that are done, in order (IBTA 10.8.5). The
// first that has failed ends the connection.
func (r *requester) retire(now Time) {
	for r.head != r.tail {
		w := r.at(r.head)
		switch {
		case w.status != Success:
			r.broke(now)
			return
		case w.packets == 0 || w.isRead():
			if !w.done {
				r.drained()
				return
			}
		case w.end() > r.taken:
			r.drained()
			return
		}
		if r.cur == r.head { // a local operation that a rewind came back to
			r.cur++
		}
		r.head++
		r.complete(w)
	}
	r.idle(now)
}

// idle notes that the queue may be empty.
func (r *requester) idle(now Time) {
	r.clock.idleSince = now
	r.drained()
}

// drained tells the application once that nothing is on its way in SQD (IBTA
// 10.3.1).
func (r *requester) drained() {
	if !r.draining || r.q.state != SQD || r.taken != r.max || r.reads.n != 0 {
		return
	}
	if r.head != r.tail && r.at(r.head).first < r.max {
		return
	}
	r.draining = false
	r.q.notify(EventDrained)
}

// complete gives the completion of w to the queue, if it is to have one: errors
// always do (IBTA 10.7.3.1).
func (r *requester) complete(w *wqe) {
	cfg := &r.q.cfg
	if w.status == Success && w.flags&Signaled == 0 && !cfg.SignalAll {
		return
	}
	c := Completion{WRID: w.id, QPN: cfg.QPN, Status: w.status, Op: w.op}
	if w.status == WRFlushed {
		cfg.Count.Flushed++
	}
	if w.isRead() && w.status == Success {
		c.Bytes = w.length
	}
	cfg.SendCQ.Complete(c)
}

// fault ends w with a status of our own making, once those before it are done.
func (r *requester) fault(now Time, w *wqe, status Status) {
	r.q.cfg.Count.LocalError++
	w.status = status
	r.stopAt = min(r.stopAt, w.first)
	if r.q.cfg.Type == RC {
		r.retire(now)
		return
	}
	// UC and UD do not leave RTS for ERR but for SQE (IBTA 10.3.1).
	if r.q.state == RTS {
		r.q.state = SQE
	}
	r.flush(now)
}
