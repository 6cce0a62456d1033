// SPDX-License-Identifier: Apache-2.0

package ooo

// rtt estimates a round-trip time as RFC 6298 does.
type rtt struct {
	smoothed, variation, least Time
	samples                    uint64
}

func (r *rtt) sample(t Time) {
	t = max(t, 1)
	r.samples++
	if r.samples == 1 {
		r.smoothed, r.variation, r.least = t, t/2, t
		return
	}
	diff := r.smoothed - t
	if diff < 0 {
		diff = -diff
	}
	r.variation += (diff - r.variation) / 4
	r.smoothed += (t - r.smoothed) / 8
	r.least = min(r.least, t)
}
