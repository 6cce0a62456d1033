// SPDX-License-Identifier: Apache-2.0

package qp

// Bounds of what the clock does by itself.
const (
	// Nothing is taken for lost sooner than this, however short the round trip: the
	// peer may be a process that was not scheduled.
	minProbe = 300 * 1000
	// Longer gaps in READ responses are taken for loss.
	maxGap = 5 * 1000 * 1000
	// As long as no round trip was measured.
	firstProbe = 20 * 1000 * 1000
	maxShift   = 16
)

// clock keeps the times of a requester: how long answers take, since when one is
// due, and what happens when it does not come.
//
// An answer is due once a packet left that asks for one. If nothing is heard for
// two round trips of the queue pair or of its destination, the oldest packet is sent once more; that is no retry. After
// the time that Modify set, everything is sent again, and after RetryCnt of those
// the connection is given up (IBTA 9.7.6). Both times double as long as nothing
// is heard, the second up to four times, which the clause allows (T_tr to 4 T_tr).
type clock struct {
	rnrUntil Time   // or 0
	due      Time   // since when an answer is due, or 0
	later    Time   // a probe was put off until then, or 0
	asked    uint64 // packets before this one are covered by one that asked for an ACK
	expected uint64 // packets before this one are to be answered, if not asked for yet then later

	rtt       rtt
	timed     uint64 // the packet whose answer gives the next: never one that was sent twice (Karn)
	timedAt   Time
	idleSince Time

	timing   bool  // timed is on its way
	ofRead   bool  // timed is a READ or ATOMIC
	probes   uint8 // since the last progress
	tries    uint8 // timeouts since then
	rnrTries uint8
	rnrFor   uint64 // the packet that the peer was not ready for

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

// probeWait is for how long silence does not call for a probe.
func (r *requester) probeWait() Time {
	c := &r.clock
	wait := Time(firstProbe)
	if c.rtt.smoothed != 0 {
		wait = max(r.estimate(func(t rtt) Time { return 2*t.smoothed + 4*t.deviation }), minProbe)
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
	c, wait := &r.clock, r.probeWait()
	return max(c.due+wait<<min(c.probes+1, maxShift)-wait, c.later)
}

// timeoutAt is when it calls for more.
func (r *requester) timeoutAt() Time {
	t := ackTimeout(r.q.attr.Timeout)
	if t == 0 {
		return 0
	}
	return r.clock.due + t<<min(r.clock.tries, 2)
}

func (r *requester) deadline() Time {
	c := &r.clock
	switch {
	case c.rnrUntil != 0:
		return c.rnrUntil
	case c.due != 0:
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
	c := &r.clock
	if at := r.deadline(); at == 0 || now < at {
		return
	}
	r.now = now
	switch {
	case c.rnrUntil != 0:
		r.endRNRWait(now)
	case c.due == 0:
		r.shrink()
	case r.noAckRequested() && r.readyToSend():
		r.requestAckNext() // no answer can come: what would ask waits for its turn
		c.start(now)
	default:
		if t := r.timeoutAt(); t != 0 && now >= t {
			r.timeout(now)
			return
		}
		if !r.overdue(now) {
			c.later = now + r.probeWait()
			return
		}
		r.q.cfg.Count.TailProbes++
		c.probes = min(c.probes+1, maxShift)
		c.timing = false
		r.tlpPending = true
	}
}

// noAckRequested reports that no packet has asked for the answers that are due.
func (r *requester) noAckRequested() bool { return r.clock.asked <= r.sndUna && r.reads.n == 0 }

// requestAckNext has the next new packet of a SEND or WRITE ask for an ACK.
func (r *requester) requestAckNext() { r.sinceAck = 1 << 16 } // more than ackEvery gives

// expects notes that packet n leaves, whose answer another one is to ask for.
func (c *clock) expects(now Time, n uint64) {
	c.expected = max(c.expected, n+1)
	if c.due == 0 {
		c.start(now)
	}
}

// start has an answer be due from now on.
func (c *clock) start(now Time) { c.due, c.later = now, 0 }

// awaits notes that packet n, which asks for an answer, leaves. first: no other one has
// asked for what is due.
func (c *clock) awaits(now Time, n uint64, again, first, read bool) {
	c.expects(now, n)
	c.asked = max(c.asked, n+1)
	if first {
		c.start(now)
	}
	if !again && !c.timing {
		c.timing, c.timed, c.timedAt, c.ofRead = true, n, now, read
	}
}

// data notes a READ response; follows says that it came behind another of its READ,
// and not because it was asked for.
func (c *clock) data(now Time, follows bool) {
	if follows {
		c.dataGap = max(min(now-c.dataAt, maxGap), c.dataGap-c.dataGap/4)
	}
	c.dataAt = now
}

// progress notes that the peer did something new. more says whether an answer is
// still due.
func (c *clock) progress(now Time, more bool) {
	c.probes, c.tries = 0, 0
	c.due = 0
	if more {
		c.start(now)
	}
}

// timeout is what happens when nothing was heard for the time that Modify set.
func (r *requester) timeout(now Time) {
	q, c := r.q, &r.clock
	q.cfg.Count.Timeouts++
	if c.tries >= q.attr.RetryCnt {
		q.cfg.Count.RetryExceeded++
		r.at(r.head).status = RetryExceeded
		r.abort(now)
		return
	}
	c.tries++
	overdue := r.overdue(now)
	c.start(now)
	if !overdue {
		return // it counts, but sends nothing
	}
	r.silentAfterTimeout = true
	r.tlpPending, r.tlpOutstanding = false, false
	r.window.silent(r.sndMax - r.sndUna)
	if r.board != nil {
		*r.board = board{base: r.sndUna} // the peer may have dropped what it kept
	}
	if r.reads.n != 0 {
		if w := r.at(r.reads.first); w.end() <= r.sndUna {
			r.askRest(w)
		}
	}
	if r.sndUna < r.sndMax {
		r.rewind(r.sndUna)
		r.suspectSpurious = true
	}
}
