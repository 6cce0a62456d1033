// SPDX-License-Identifier: Apache-2.0

package priority

import "math/bits"

// Even shares a link evenly among destinations without priorities, by demand (S1.2). A
// share is the most that congestion control may decide for a destination. The zero value
// bounds nothing.
type Even struct {
	level uint64 // share of each destination, 0 = no bound
}

// evenShift: the share stays until it is off by 1/2^evenShift. Echoes of packets that left
// at another rate do not count, so a destination with a long RTT whose rate changed with
// each change of other demands would have no feedback.
const evenShift = 5

// Update takes in the rate of the link and the demands of the destinations, in bit/s.
func (e *Even) Update(link uint64, demands []uint64) {
	level := Level(link, demands)
	if level >= link-link>>evenShift {
		level = 0
	}
	if off := max(level, e.level) - min(level, e.level); level == 0 || e.level == 0 || off > e.level>>evenShift {
		e.level = level
	}
}

// Share returns the share of a destination whose rate is at most most.
func (e *Even) Share(most uint64) uint64 {
	if e.level == 0 {
		return most
	}
	return max(min(e.level, most), 1)
}

// ShareBound keeps the rate of congestion control for one destination below its share. A share
// that shrinks is no congestion: the rate from before is remembered, and is in force again
// when the share grows. The zero value has had no share yet.
type ShareBound struct {
	limit uint64 // the last share, 0 = none
	free  uint64 // the rate without the bound, 0 = the bound does not limit it
}

// Limit returns the last share, or most without one.
func (b *ShareBound) Limit(most uint64) uint64 {
	if b.limit == 0 {
		return most
	}
	return b.limit
}

// Apply takes in the next share. It returns what rate becomes before congestion control
// decides, which may then set it to at most share.
func (b *ShareBound) Apply(rate, share, most uint64) uint64 {
	b.limit = b.Limit(most)
	switch {
	case rate > share:
		b.free = max(b.free, rate)
		rate = share
	case b.free > b.limit && share > b.limit:
		// As far below the new share as recent decreases took it below the old one.
		hi, lo := bits.Mul64(min(rate, b.limit), share)
		up, _ := bits.Div64(hi, lo, b.limit)
		rate = min(up, b.free, share)
	}
	if b.free <= share {
		b.free = 0
	}
	b.limit = share
	return rate
}

// Decreased takes in that congestion control decreased the rate by q10/1024: the
// remembered rate was as much too high as the bounded one.
func (b *ShareBound) Decreased(q10 uint32) { b.free -= (b.free >> 10) * uint64(q10) }
