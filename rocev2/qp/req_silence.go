// SPDX-License-Identifier: Apache-2.0

package qp

// Silence of a destination: a response has been due for 200 ms, and no queue pair has got any. The tail loss probes
// and timeouts of its queue pairs are far apart by then. So one queue pair at a time sends its oldest packet again,
// every 100 ms, as a probe or because of a timeout. Every responder answers a duplicate (IBTA 9.7.5.1). The first
// response ends the silence. Then the tail loss probes of all queue pairs start again with short intervals, at most
// one in a round trip (silenceIsLoss).
//
// A probe is no retry and does not move the ACK timeout: a peer that is gone ends the connection at RetryBound.

// Times in ns.
const (
	silenceTime       = 200 * 1000 * 1000 // a host that is not scheduled for a while is silent for shorter
	silenceProbeTime  = 100 * 1000 * 1000 // between two probes
	silenceProbePart  = 32                // a 32nd of the silence lies between two probes, if that is longer
	linkUpProbeTime   = 20 * 1000 * 1000  // between two probes within linkUpTime: the path may lose the first ones
	linkUpTime        = 100 * 1000 * 1000
	silenceProbeOrder = 100 * 1000 // by how much a queue pair is later for each probe that it has sent
)

// silence is the state shared by all queue pairs of a destination.
type silence struct {
	responseAt Time // last time that a queue pair got a response
	linkUpAt   Time // time at which the link to the destination came up, or 0
	since      Time // time at which the silence was detected, or 0
	ended      bool // a response ended the silence, see Flight.SilenceEnded
}

// silentFrom returns from when on the destination is silent, if no queue pair gets a response before. After the link
// has come up, two RTTs are enough. A destination that has responded to a later packet than the one for which this
// queue pair has none is not silent: the peer may have lost this queue pair only.
func (r *requester) silentFrom() Time {
	f, wait := r.q.flight, r.probeTimeout()
	s, last := &f.silence, max(r.rto.dueSince, f.silence.responseAt)
	switch {
	case f.dest.newestAcked[answerKind(r.reads.n != 0)] > r.rto.dueSince:
		return never
	case s.linkUpAt > last:
		return max(s.linkUpAt, last+wait)
	}
	return last + max(silenceTime, wait)
}

// never is later than any time.
const never = 1<<63 - 1

// detectSilence reports whether the destination is silent.
func (r *requester) detectSilence(now Time) bool {
	f := r.q.flight
	if f == nil {
		return false
	}
	s := &f.silence
	if s.since != 0 && now-max(s.since, s.linkUpAt, f.dest.probedAt) > 2*r.silenceProbeGap() {
		s.since, s.linkUpAt = 0, 0 // the queue pairs that sent probes are gone
	}
	if s.since == 0 && now >= r.silentFrom() {
		s.since = now
	}
	return s.since != 0
}

// silenceProbeGap returns the time between the last probe of the silent destination and the next one.
func (r *requester) silenceProbeGap() Time {
	s, last := &r.q.flight.silence, r.q.flight.dest.probedAt
	if s.linkUpAt != 0 && last-s.linkUpAt < linkUpTime {
		return linkUpProbeTime
	}
	return max(silenceProbeTime, r.probeTimeout(), (last-s.since)/silenceProbePart)
}

// nextSilenceProbe returns when the queue pair may send the next probe to the silent destination, if no other one does
// before. Those that have sent fewest come first, because the peer may have lost some queue pairs.
func (r *requester) nextSilenceProbe() Time {
	return r.q.flight.dest.probedAt + r.silenceProbeGap() + Time(r.rto.probes)*silenceProbeOrder
}

// endSilence notes that the queue pair has got a response.
func (r *requester) endSilence(now Time) {
	f := r.q.flight
	if f == nil {
		return
	}
	f.silence.responseAt = now
	if f.silence.since != 0 {
		f.silence = silence{responseAt: now, ended: true}
	}
}

// SilenceEnded reports whether the destination's silence has ended since the last call. Then the engine calls Resume
// for all its queue pairs.
func (f *Flight) SilenceEnded() bool {
	ended := f.silence.ended
	f.silence.ended = false
	return ended
}

// LinkUp notes that the link to the destination has come up. Then the engine calls Resume for all its queue pairs.
func (f *Flight) LinkUp(now Time) { f.silence.linkUpAt, f.dest.probedAt = now, 0 }

// Resume has the intervals of tail loss probes start again: the destination answers again, or its link has come up.
// If it answers, responses that are only late have the time of one probe timeout. The next response gives no RTT: it may
// be for a packet that was sent after the timed one. Deadline may be earlier afterwards.
func (q *QP) Resume(now Time) {
	r := &q.req
	c := &r.rto
	if c.since == 0 {
		return
	}
	c.timing, c.probes, c.probeNotBefore = false, 0, now
	if q.flight == nil || q.flight.silence.since == 0 {
		c.probeNotBefore += r.probeTimeout()
	}
}
