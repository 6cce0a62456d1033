// SPDX-License-Identifier: Apache-2.0

package priority

import "time"

// SharedLink estimates the capacity of a link that several destinations share and whose rate is
// not configured: a link somewhere in the network, or one that carries other traffic as well.
// The zero value has no estimate yet. It reads no clock: times are nanoseconds of the caller's
// monotonic clock.
//
// A single congested destination has a bottleneck of its own and changes nothing for the others
// (S1.9). A shared link is congested if most destinations have queueing delay at the same time.
// The link then carries what is sent now, and its queue drains if a little less is sent. The
// estimate grows while there is no congestion, faster with time.
type SharedLink struct {
	CapacityBps uint64 // rate that the link is taken to carry, 0 before the first Step
	ChangedNs   uint64 // last change of CapacityBps
	limit       uint64 // limit of the last Step
	increases   uint32 // number of increases in a row
}

// CongestionSigns are the recent signs of congestion at the active destinations.
type CongestionSigns struct {
	UsedBps   uint64 // sum of their rates
	Active    int    // destinations with recent feedback
	Waiting   int    // destinations of Active with queueing delay, loss or marks
	Decreased int    // destinations of Active whose rate was decreased by the four-case policy since ChangedNs
}

// shared reports whether a shared link is congested: there are at least two active destinations,
// at least three quarters of them show congestion, and the rate of at least one was decreased.
func (s *CongestionSigns) shared() bool {
	return s.Active >= 2 && s.Decreased > 0 && s.Waiting >= 2 && 4*s.Waiting >= 3*s.Active
}

const (
	// decreasePause is the least time between two decreases of the estimate: the effect of the first
	// must be measured before the second.
	decreasePause = 50 * time.Millisecond
	// increasePause is the time between two increases, and from a decrease to the next increase.
	increasePause  = 100 * time.Millisecond
	decreaseShift  = 5 // a decrease is to 31/32 of what is sent
	increaseShift  = 6 // an increase is by 1/64,
	increaseDouble = 8 // twice that after so many in a row,
	increaseMost   = 3 // and so often at most
)

// Recent is how long a destination counts as active after its last decision with feedback, in
// nanoseconds.
const Recent = uint64(200 * time.Millisecond)

// Step updates the estimate with the signs of congestion. limit is its upper bound in bit/s: the
// rate of the interface, or a configured one. It reports whether a shared link is congested now.
func (u *SharedLink) Step(limit uint64, s CongestionSigns, now uint64) (shared bool) {
	if u.CapacityBps == u.limit || u.CapacityBps > limit { // at first, too: both are 0
		*u = SharedLink{CapacityBps: limit, ChangedNs: u.ChangedNs}
	}
	u.limit = limit
	since := now - u.ChangedNs
	if s.shared() {
		if since >= uint64(decreasePause) && s.UsedBps > 0 {
			lower := s.UsedBps - s.UsedBps>>decreaseShift
			u.CapacityBps = max(min(u.CapacityBps, lower), 1)
			u.ChangedNs, u.increases = now, 0
		}
		return true
	}
	if since >= uint64(increasePause) && u.CapacityBps < limit {
		step := max(u.CapacityBps>>increaseShift, 1) << min(u.increases/increaseDouble, increaseMost)
		u.CapacityBps += min(step, limit-u.CapacityBps)
		u.ChangedNs = now
		u.increases++
	}
	return false
}

// Estimated reports whether the estimate, and not limit, is the capacity to share.
func (u *SharedLink) Estimated(limit uint64) bool { return u.CapacityBps != 0 && u.CapacityBps < limit }
