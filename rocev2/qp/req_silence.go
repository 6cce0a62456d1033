// SPDX-License-Identifier: Apache-2.0

package qp

// Silence of a destination: it has answered nothing for 200 ms or more. Then its queue pairs do not wait for
// their timeouts, which are far apart by then. Every 100 ms one of them sends its oldest packet
// again, which every responder answers. With the first answer all queue pairs send their oldest packet
// again. These probes are no retries, and the ACK timeout goes on as if there were none.

const (
	// From when on a destination is silent, ns. A host that only stalls is shorter.
	silenceTime = 200 * 1000 * 1000
	// The time between two probes of a silent destination, ns.
	silentProbeTime = 100 * 1000 * 1000
	// After 3.2 s of silence, this part of it is the time between two probes.
	silentProbePart = 32
	// The same in the first 100 ms after the link has come up, ns: the path may need a moment, or lose one.
	linkProbeTime = 20 * 1000 * 1000
	// By how much a queue pair that has sent a probe is later than those that wait for their turn, ns.
	silentTurn = 1000 * 1000
	// How long the queue pairs wait after the first answer for ACKs that are only late, ns.
	lateAckTime = 20 * 1000 * 1000
)

// silence is the state shared by all queue pairs of a destination.
type silence struct {
	linkUp Time // when the link to it came up, or 0
	nextAt Time // when the next probe of a silent destination may be sent
	again  bool // something was sent again during the silence
	ended  bool // an answer ended the silence, see Flight.Answers
}

// silentFrom returns from when on the destination is silent, if it answers nothing before.
func (r *requester) silentFrom() Time {
	return max(r.rto.silentSince, r.q.flight.answeredAt) + max(silenceTime, r.probeTimeout())
}

// isSilent reports whether the destination is silent.
func (r *requester) isSilent(now Time) bool { return r.q.flight != nil && now >= r.silentFrom() }

// silentGap returns the time between two probes of a silent destination.
func (r *requester) silentGap(now Time) Time {
	if at := r.q.flight.silence.linkUp; at != 0 && now-at < silentProbeTime {
		return linkProbeTime
	}
	return max(silentProbeTime, r.probeTimeout(), (now-r.rto.silentSince)/silentProbePart)
}

// mayProbeSilent reports whether the queue pair is the one that sends the next probe to its silent
// destination. Otherwise it asks again when that is due.
func (r *requester) mayProbeSilent(now Time) bool {
	s := &r.q.flight.silence
	if now < s.nextAt {
		r.rto.probeNotBefore = s.nextAt
		return false
	}
	s.nextAt, s.again = now+r.silentGap(now), true
	r.rto.probeNotBefore = s.nextAt + silentTurn
	return true
}

// onAnswer notes that the peer has answered what was outstanding.
func (r *requester) onAnswer() {
	if f := r.q.flight; f != nil && f.silence.again {
		f.silence = silence{ended: true}
	}
}

// Answers reports whether a silent destination has answered since the last call. Then the engine calls
// SendAgain for all its queue pairs.
func (f *Flight) Answers() bool {
	if !f.silence.ended {
		return false
	}
	f.silence.ended = false
	return true
}

// LinkUp notes that the link to the destination has come up: the next probe need not wait for the last one.
// Then the engine calls QP.LinkUp for all its queue pairs.
func (f *Flight) LinkUp(now Time) { f.silence.linkUp, f.silence.nextAt = now, 0 }

// LinkUp has the queue pair send a probe at once if its destination is silent and no other one has.
// Deadline may be earlier afterwards.
func (q *QP) LinkUp() { q.req.rto.probeNotBefore = 0 }

// SendAgain has the queue pair send its oldest packet again soon if that is not answered before, because its
// destination answers again. ACKs that are only late arrive first. Deadline may be earlier afterwards.
func (q *QP) SendAgain(now Time) {
	r := &q.req
	c := &r.rto
	if c.since == 0 || c.rnrUntil != 0 {
		return
	}
	wait := max(lateAckTime, 2*r.estimate(func(t rtt) Time { return t.smoothed }))
	c.againAt = now + wait
}

// probe has the oldest packet without an answer sent again.
func (r *requester) probe() {
	r.q.cfg.Count.TailProbes++
	r.rto.timing = false
	r.tlpPending = true
}
