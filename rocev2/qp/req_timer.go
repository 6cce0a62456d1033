// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2/verbs"

// Bounds of the probe timer, in ns.
const (
	// The shortest probe timeout, however short the RTT: the peer may be a process that
	// was not scheduled.
	minProbeTimeout = 300 * 1000
	// The longest gap between READ responses that counts as pacing, not as loss.
	maxDataGap = 5 * 1000 * 1000
	// The probe timeout before the first RTT sample.
	initialProbeTimeout = 20 * 1000 * 1000
	maxBackoffShift     = 16
)

// rtoState is the state of the retransmission timer: tail loss probes (RFC 8985) and the
// timeouts of IBTA 9.7.6.
//
// A response is due after a packet with AckReq was sent. Without any response for two RTTs
// of the queue pair or of its destination, the oldest packet is sent again as a probe. A
// probe does not count as a retry. If the whole destination is silent, its queue pairs take
// turns with the probes (req_silence.go). After the ACK timeout (Attr.Timeout) all packets are
// sent again. After RetryCnt such retries the connection ends (IBTA 9.7.6). Both times
// double while no response arrives, the ACK timeout up to four times. The clause allows
// that (T_tr to 4 T_tr).
type rtoState struct {
	rnrUntil        Time   // end of the pause after an RNR NAK, or 0
	since           Time   // beginning of the time that a response is due, or 0: the last progress, timeout or first packet
	dueSince        Time   // copy of since that timeouts do not change; without requests: end of the last one
	probeNotBefore  Time   // the probe was postponed until then, or 0
	requestedBefore uint64 // a packet with AckReq covers all packets before this one
	expectedBefore  uint64 // a response is due, now or later, for all packets before this one

	rtt         rtt
	timedPacket uint64 // the packet that gives the next RTT sample: never one sent twice (Karn's algorithm)
	timedAt     Time

	timing     bool  // timedPacket is in flight
	timedRead  bool  // timedPacket is a READ or ATOMIC
	probes     uint8 // probes since the last progress
	retries    uint8 // timeouts since the last progress
	rnrRetries uint8
	rnrPacket  uint64 // the packet that got the RNR NAK

	// The peer paces READ responses, perhaps more slowly than one per RTT. dataGap is the
	// longest time between two of them; it decays by a quarter each time.
	dataGap Time
	dataAt  Time
}

// ackTimeout returns 4.096 µs · 2^t (IBTA 9.7.6), 0 for t = 0: no timeout.
func ackTimeout(t uint8) Time {
	if t == 0 {
		return 0
	}
	return 4096 << (t & 31)
}

// RetryBound returns the longest time from the first packet with AckReq to RetryExceeded,
// if the peer never responds. It is 0 for timeout 0: the connection never ends so.
func RetryBound(timeout, retryCnt uint8) Time {
	sum := Time(0)
	for i := range retryCnt + 1 {
		sum += ackTimeout(timeout) << min(i, 2)
	}
	return sum
}

// probeTimeout returns the time without a response after which a probe is sent.
func (r *requester) probeTimeout() Time {
	c := &r.rto
	wait := Time(initialProbeTimeout)
	if c.rtt.smoothed != 0 {
		wait = max(r.estimate(func(t rtt) Time { return 2*t.smoothed + 4*t.deviation }), minProbeTimeout)
	}
	if r.reads.n != 0 {
		wait = max(wait, 2*c.dataGap)
	}
	if t := ackTimeout(r.q.attr.Timeout); t != 0 && c.rtt.smoothed == 0 {
		wait = min(wait, max(t/4, 1))
	}
	return wait
}

// probeAt returns when the next probe is due.
func (r *requester) probeAt() Time {
	c, wait := &r.rto, r.probeTimeout()
	at := c.since + wait<<min(c.probes+1, maxBackoffShift) - wait
	if r.q.flight != nil {
		at = min(at, r.silentFrom())
	}
	return max(at, c.probeNotBefore)
}

// timeoutAt returns when the ACK timeout expires, or 0.
func (r *requester) timeoutAt() Time {
	t := ackTimeout(r.q.attr.Timeout)
	if t == 0 {
		return 0
	}
	return r.rto.since + t<<min(r.rto.retries, 2)
}

func (r *requester) deadline() Time {
	c := &r.rto
	switch {
	case c.rnrUntil != 0:
		return c.rnrUntil
	case c.since != 0:
		at := r.probeAt()
		if r.tlpPending { // due, but not sent yet
			at = 0
		}
		if t := r.timeoutAt(); at == 0 || t != 0 && t < at {
			at = t
		}
		return at
	case r.head == r.tail && len(r.ring) > ringMin:
		return c.dueSince + idleTime
	}
	return 0
}

func (r *requester) expire(now Time) {
	c := &r.rto
	if at := r.deadline(); at == 0 || now < at {
		return
	}
	r.now = now
	switch {
	case c.rnrUntil != 0:
		r.endRNRWait(now)
	case c.since == 0:
		r.shrink()
	case r.noAckRequested() && r.readyToSend() && !r.q.blockedInSilence(c.since):
		r.requestAckNext() // no ACK can come: the packet to request it is not sent yet
		c.restart(now)
	default:
		if t := r.timeoutAt(); t != 0 && now >= t {
			r.timeout(now)
			return
		}
		if r.silenceIsLoss(now) {
			r.q.cfg.Count.TailProbes++
			c.probes = min(c.probes+1, maxBackoffShift)
			c.probeNotBefore = now + r.probeTimeout()<<c.probes // the timer may run since long ago, see Resume
			c.timing = false
			r.tlpPending = true
			if r.q.attr.Timeout == 0 && now-c.dueSince >= silenceTime { // no ACK timeout does it
				r.loseAll()
			}
		} else {
			c.probeNotBefore = now + r.probeTimeout()
		}
		if f := r.q.flight; f != nil && f.silence.since != 0 {
			c.probeNotBefore = r.nextSilenceProbe()
		}
	}
}

// noAckRequested reports that no packet has requested the ACKs that are due.
func (r *requester) noAckRequested() bool { return r.rto.requestedBefore <= r.sndUna && r.reads.n == 0 }

// requestAckNext sets AckReq in the next new packet of a SEND or WRITE.
func (r *requester) requestAckNext() { r.sinceAck = 1 << 16 } // more than any ackEvery

// armTail notes that packet n, sent without AckReq, needs an ACK: it ends a message, or no
// other packet may leave now. A later packet or a probe requests the ACK.
func (c *rtoState) armTail(now Time, n uint64) {
	c.expectedBefore = max(c.expectedBefore, n+1)
	if c.since == 0 {
		c.restart(now)
	}
}

// restart starts the timer at now.
func (c *rtoState) restart(now Time) { c.since, c.dueSince, c.probeNotBefore = now, now, 0 }

// armAckTimer notes that packet n is sent with AckReq. first: no earlier packet has
// requested the ACKs that are due.
func (c *rtoState) armAckTimer(now Time, n uint64, again, first, read bool) {
	c.armTail(now, n)
	c.requestedBefore = max(c.requestedBefore, n+1)
	if first {
		c.restart(now)
	}
	if !again && !c.timing {
		c.timing, c.timedPacket, c.timedAt, c.timedRead = true, n, now, read
	}
}

// onReadData notes a READ response. follows: it came after another response to its READ,
// not after a request for missing data.
func (c *rtoState) onReadData(now Time, follows bool) {
	if follows {
		c.dataGap = max(min(now-c.dataAt, maxDataGap), c.dataGap-c.dataGap/4)
	}
	c.dataAt = now
}

// onProgress notes that the peer made progress. more: a response is still due.
func (c *rtoState) onProgress(now Time, more bool) {
	c.probes, c.retries = 0, 0
	c.since = 0
	if more {
		c.restart(now)
	}
}

// timeout handles the ACK timeout.
func (r *requester) timeout(now Time) {
	q, c := r.q, &r.rto
	q.cfg.Count.Timeouts++
	if c.retries >= q.attr.RetryCnt {
		q.cfg.Count.RetryExceeded++
		r.at(r.head).status = verbs.StatusRetryExceeded
		r.abort(now)
		return
	}
	c.retries++
	overdue := r.silenceIsLoss(now)
	c.since, c.probeNotBefore = now, 0 // dueSince stays
	if !overdue {
		return // it counts as a retry but sends nothing
	}
	r.silentAfterTimeout = true
	r.tlpPending, r.tlpOutstanding = false, false
	if r.scoreboard != nil {
		*r.scoreboard = scoreboard{base: r.sndUna} // the peer may have dropped its buffered packets
	}
	if r.reads.n != 0 {
		if w := r.at(r.reads.first); w.end() <= r.sndUna {
			r.requestRest(w)
		}
	}
	r.loseAll()
}

// loseAll notes that all without a response is lost, perhaps: it is sent again, one packet first. It does not count as in
// flight until then, because others of the destination must not wait until the connection ends.
func (r *requester) loseAll() {
	r.loseInflight(r.oldestUnanswered())
	r.window.onSilence(r.sndMax - r.sndUna)
	if r.sndUna < r.sndMax {
		r.rewind(r.sndUna)
		r.suspectSpurious = true
	}
}
