// SPDX-License-Identifier: Apache-2.0

package qp

// rtt is the RTT estimate of RFC 6298; 0 before the first sample. It needs no timestamps
// from the peer.
type rtt struct{ smoothed, deviation Time }

// sample adds a measured RTT.
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

// destState is the state shared by all queue pairs of a destination: its RTT and whether
// it responds.
type destState struct {
	rtt         rtt
	repair      rtt     // RTT of READs of missing data, see sampleRepair
	newestAcked [2]Time // send time of the newest packet with a response, by answerKind
	probedAt    Time    // last time that a queue pair sent again without evidence of loss
}

// sampleRTT adds the RTT of the timed packet to the queue pair's and the destination's
// estimates.
func (r *requester) sampleRTT(now Time) {
	c := &r.rto
	c.rtt.sample(now - c.timedAt)
	if f := r.q.flight; f != nil {
		f.dest.rtt.sample(now - c.timedAt)
		n := &f.dest.newestAcked[answerKind(c.timedRead)]
		*n = max(*n, c.timedAt)
	}
}

// answerKind distinguishes responses with data, which the peer paces and queues, from ACKs,
// which overtake them.
func answerKind(read bool) int {
	if read {
		return 1
	}
	return 0
}

// silenceIsLoss reports whether a missing response means loss. It does if the destination
// has responded to a packet that was sent later than this queue pair's. If it has not, the
// destination is probably stopped or overloaded as a whole. Then one queue pair in a round
// trip sends again: if all did, the load would double. If the destination is silent for
// longer, one does in silenceProbeGap.
func (r *requester) silenceIsLoss(now Time) bool {
	f := r.q.flight
	if f == nil {
		return true
	}
	gap := max(r.roundTrip(), minProbeTimeout)
	if r.detectSilence(now) {
		gap = r.silenceProbeGap()
	} else if f.dest.newestAcked[answerKind(r.reads.n != 0)] > r.rto.since {
		return true
	}
	if p := f.dest.probedAt; p != 0 && now-p < gap {
		return false
	}
	f.dest.probedAt = now
	return true
}

// estimate returns the larger of the queue pair's and its destination's values. A queue
// pair among many has few samples, and packets of the others delay its responses.
func (r *requester) estimate(value func(rtt) Time) Time {
	v := value(r.rto.rtt)
	if f := r.q.flight; f != nil {
		v = max(v, value(f.dest.rtt))
	}
	return v
}

// roundTrip returns how long a response to a packet sent now may take.
func (r *requester) roundTrip() Time {
	if r.rto.rtt.smoothed == 0 {
		return minProbeTimeout
	}
	return r.estimate(func(t rtt) Time { return t.smoothed + 4*t.deviation })
}

// sampleRepair adds the RTT of a request for missing data of w, whose packet at was received.
// A responder sends such data before later READs, while the RTT of a READ includes the
// responses of all READs before it.
func (r *requester) sampleRepair(now Time, w *wqe, at uint32) {
	if f := r.q.flight; f != nil && w.timed && at < w.requestedTo {
		f.dest.repair.sample(now - w.requestedAt)
		w.timed = false
	}
}

// repairTimeout returns how long the response to a READ of missing data may take before the
// data is requested once more.
func (r *requester) repairTimeout() Time {
	f := r.q.flight
	if f == nil || f.dest.repair.smoothed == 0 {
		return 2 * r.roundTrip()
	}
	t := f.dest.repair
	return max(2*t.smoothed+4*t.deviation, minProbeTimeout)
}
