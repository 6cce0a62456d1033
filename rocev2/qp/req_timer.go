// SPDX-License-Identifier: Apache-2.0

package qp

// Bounds of what the clock does by itself.
const (
	// Nothing is taken for lost sooner than this, however short the round trip: the
	// peer may be a process that was not scheduled.
	minProbeTimeout = 300 * 1000
	// Longer gaps in READ responses are taken for loss.
	maxDataGap = 5 * 1000 * 1000
	// As long as no round trip was measured.
	initialProbeTimeout = 20 * 1000 * 1000
	maxBackoffShift     = 16
)

// rtoState keeps the times of a requester: how long answers take, since when one is
// due, and what happens when it does not come.
//
// An answer is due once a packet left that asks for one. If nothing is heard for
// two round trips of the queue pair or of its destination, the oldest packet is sent once more; that is no retry. After
// the time that Modify set, everything is sent again, and after RetryCnt of those
// the connection is given up (IBTA 9.7.6). Both times double as long as nothing
// is heard, the second up to four times, which the clause allows (T_tr to 4 T_tr).
type rtoState struct {
	rnrUntil        Time   // or 0
	since           Time   // since when an answer is due, or 0
	probeNotBefore  Time   // a probe was put off until then, or 0
	requestedBefore uint64 // packets before this one are covered by one that asked for an ACK
	expectedBefore  uint64 // packets before this one are to be answered, if not asked for yet then later

	rtt         rtt
	timedPacket uint64 // the packet whose answer gives the next: never one that was sent twice (Karn)
	timedAt     Time
	idleSince   Time

	timing     bool  // timed is on its way
	timedRead  bool  // timed is a READ or ATOMIC
	probes     uint8 // since the last progress
	retries    uint8 // timeouts since then
	rnrRetries uint8
	rnrPacket  uint64 // the packet that the peer was not ready for

	// READ responses come at the pace of the peer, which may be slower than the
	// round trip: the longest wait between two, forgotten slowly.
	dataGap Time
	dataAt  Time
}

// ackTimeout is 4.096 µs · 2^t (IBTA 9.7.6), 0 for t = 0: never.
func ackTimeout(t uint8) Time {
	if t == 0 {
		return 0
	}
	return 4096 << (t & 31)
}

// RetryBound is the longest time until a peer that does not answer is given
// up with RetryExceeded, from the first packet that asked it for an answer. It is 0
// if it never is, which is so with timeout 0.
func RetryBound(timeout, retryCnt uint8) Time {
	sum := Time(0)
	for i := range retryCnt + 1 {
		sum += ackTimeout(timeout) << min(i, 2)
	}
	return sum
}

// probeTimeout is for how long silence does not call for a probe.
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

// probeAt is when it does.
func (r *requester) probeAt() Time {
	c, wait := &r.rto, r.probeTimeout()
	return max(c.since+wait<<min(c.probes+1, maxBackoffShift)-wait, c.probeNotBefore)
}

// timeoutAt is when it calls for more.
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
		if r.tlpPending { // it waits for its turn to be sent
			at = 0
		}
		if t := r.timeoutAt(); at == 0 || t != 0 && t < at {
			at = t
		}
		return at
	case r.head == r.tail && len(r.ring) > ringMin:
		return c.idleSince + idleTime
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
	case r.noAckRequested() && r.readyToSend():
		r.requestAckNext() // no answer can come: what would ask waits for its turn
		c.restart(now)
	default:
		if t := r.timeoutAt(); t != 0 && now >= t {
			r.timeout(now)
			return
		}
		if !r.silenceIsLoss(now) {
			c.probeNotBefore = now + r.probeTimeout()
			return
		}
		r.q.cfg.Count.TailProbes++
		c.probes = min(c.probes+1, maxBackoffShift)
		c.timing = false
		r.tlpPending = true
	}
}

// noAckRequested reports that no packet has asked for the answers that are due.
func (r *requester) noAckRequested() bool { return r.rto.requestedBefore <= r.sndUna && r.reads.n == 0 }

// requestAckNext has the next new packet of a SEND or WRITE ask for an ACK.
func (r *requester) requestAckNext() { r.sinceAck = 1 << 16 } // more than ackEvery gives

// armTail notes that packet n leaves, whose answer another one is to ask for.
func (c *rtoState) armTail(now Time, n uint64) {
	c.expectedBefore = max(c.expectedBefore, n+1)
	if c.since == 0 {
		c.restart(now)
	}
}

// restart has an answer be due from now on.
func (c *rtoState) restart(now Time) { c.since, c.probeNotBefore = now, 0 }

// armAckTimer notes that packet n, which asks for an answer, leaves. first: no other one has
// asked for what is due.
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

// onReadData notes a READ response; follows says that it came behind another of its READ,
// and not because it was asked for.
func (c *rtoState) onReadData(now Time, follows bool) {
	if follows {
		c.dataGap = max(min(now-c.dataAt, maxDataGap), c.dataGap-c.dataGap/4)
	}
	c.dataAt = now
}

// onProgress notes that the peer did something new. more says whether an answer is
// still due.
func (c *rtoState) onProgress(now Time, more bool) {
	c.probes, c.retries = 0, 0
	c.since = 0
	if more {
		c.restart(now)
	}
}

// timeout is what happens when nothing was heard for the time that Modify set.
func (r *requester) timeout(now Time) {
	q, c := r.q, &r.rto
	q.cfg.Count.Timeouts++
	if c.retries >= q.attr.RetryCnt {
		q.cfg.Count.RetryExceeded++
		r.at(r.head).status = RetryExceeded
		r.abort(now)
		return
	}
	c.retries++
	overdue := r.silenceIsLoss(now)
	c.restart(now)
	if !overdue {
		return // it counts, but sends nothing
	}
	r.silentAfterTimeout = true
	r.tlpPending, r.tlpOutstanding = false, false
	r.window.onSilence(r.sndMax - r.sndUna)
	if r.scoreboard != nil {
		*r.scoreboard = scoreboard{base: r.sndUna} // the peer may have dropped what it kept
	}
	if r.reads.n != 0 {
		if w := r.at(r.reads.first); w.end() <= r.sndUna {
			r.requestRest(w)
		}
	}
	if r.sndUna < r.sndMax {
		r.rewind(r.sndUna)
		r.suspectSpurious = true
	}
}
