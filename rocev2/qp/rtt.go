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

// sample takes a measured round trip for the queue pair and for its destination.
func (r *requester) sample(t Time) {
	r.clock.rtt.sample(t)
	if f := r.q.flight; f != nil {
		f.rtt.sample(t)
	}
}

// estimate is the larger of the queue pair's and its destination's values: a queue pair among
// many has few samples, and what others have outstanding delays its answers.
func (r *requester) estimate(value func(rtt) Time) Time {
	v := value(r.clock.rtt)
	if f := r.q.flight; f != nil {
		v = max(v, value(f.rtt))
	}
	return v
}

// roundTrip is how long to wait for the effect of something sent now.
func (r *requester) roundTrip() Time {
	if r.clock.rtt.smoothed == 0 {
		return minProbe
	}
	return r.estimate(func(t rtt) Time { return t.smoothed + 4*t.deviation })
}
