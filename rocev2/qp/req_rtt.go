// SPDX-License-Identifier: Apache-2.0

package qp

// rtt is the estimate of a round trip of RFC 6298; 0 before the first sample.
type rtt struct{ smoothed, deviation Time }

// sample takes a measured round trip.
func (r *rtt) sample(t Time) {
	t = max(t, 1)
	if r.smoothed == 0 {
		r.smoothed, r.deviation = t, t/2
		return
	}
	d := t - r.smoothed
	r.smoothed += d / 8
	if d < 0 {
		d = -d
	}
	r.deviation += (d - r.deviation) / 4
}

// destState is what is known of a destination as a whole: whether it answers.
type destState struct {
	rtt         rtt
	newestAcked [2]Time // when the newest answered packet was sent: a SEND or WRITE, a READ or ATOMIC
	probedAt    Time    // when a queue pair last sent again although nothing showed that it had to
}

// sampleRTT takes the round trip of the packet that was timed, for the queue pair and for its
// destination.
func (r *requester) sampleRTT(now Time) {
	c := &r.rto
	c.rtt.sample(now - c.timedAt)
	if f := r.q.flight; f != nil {
		f.dest.rtt.sample(now - c.timedAt)
		n := &f.dest.newestAcked[answerKind(c.timedRead)]
		*n = max(*n, c.timedAt)
	}
}

// answerKind tells answers that are data, which the peer paces and has wait for each other, from
// ACKs, which overtake them.
func answerKind(read bool) int {
	if read {
		return 1
	}
	return 0
}

// silenceIsLoss reports whether silence means that something was lost. It does if the destination
// has answered what was sent after what this queue pair waits for. If it has not, it is
// probably silent as a whole, stopped or far behind: then one queue pair in a round trip
// finds out. If all of them sent again, it would have twice as much to do.
func (r *requester) silenceIsLoss(now Time) bool {
	f := r.q.flight
	if f == nil || f.dest.newestAcked[answerKind(r.reads.n != 0)] > r.rto.since {
		return true
	}
	if p := f.dest.probedAt; p != 0 && now-p < max(r.roundTrip(), minProbeTimeout) {
		return false
	}
	f.dest.probedAt = now
	return true
}

// estimate is the larger of the queue pair's and its destination's values: a queue pair among
// many has few samples, and what others have outstanding delays its answers.
func (r *requester) estimate(value func(rtt) Time) Time {
	v := value(r.rto.rtt)
	if f := r.q.flight; f != nil {
		v = max(v, value(f.dest.rtt))
	}
	return v
}

// roundTrip is how long to wait for the effect of something sent now.
func (r *requester) roundTrip() Time {
	if r.rto.rtt.smoothed == 0 {
		return minProbeTimeout
	}
	return r.estimate(func(t rtt) Time { return t.smoothed + 4*t.deviation })
}
