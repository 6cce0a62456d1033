// SPDX-License-Identifier: Apache-2.0

package priority

import "time"

// Uplink finds out what a link carries that destinations share and whose rate nobody
// has told: somewhere in the network, or one that others use as well. The zero value
// knows nothing yet. It is pure: times are the caller's monotonic nanoseconds.
//
// One destination that is congested has a bottleneck of its own and concerns nobody
// else (S1.9). Congestion is that of a shared link when all wait at the same time.
// Then the link carries what is sent now, and a little less empties its queue; the
// estimate goes up again while it is quiet, the longer the faster.
type Uplink struct {
	CapacityBps uint64 // what the link is taken to carry, 0 before the first Step
	ChangedNs   uint64 // when that last changed
	limit       uint64 // of the last Step
	raises      uint32 // in a row
}

// Signs are what the destinations that send have seen of late.
type Signs struct {
	UsedBps uint64 // sum of their rates
	Active  int    // destinations with recent feedback
	Waiting int    // of these: their packets wait in a queue, or were lost or marked
	Cut     int    // of these: cut by the four-case policy since ChangedNs
}

// shared: at least two, most of them wait, and at least one so long that it was cut.
func (s *Signs) shared() bool {
	return s.Active >= 2 && s.Cut > 0 && s.Waiting >= 2 && 4*s.Waiting >= 3*s.Active
}

const (
	// cutPause is the least time between two cuts: what one did must be seen first.
	cutPause = 50 * time.Millisecond
	// raisePause is the time between two raises, and from a cut to the next raise.
	raisePause  = 100 * time.Millisecond
	cutShift    = 5 // a cut is to 31/32 of what is sent
	raiseShift  = 6 // a raise by 1/64,
	raiseDouble = 8 // twice that after so many in a row,
	raiseMost   = 3 // and so often at most
)

// Recent is how long a destination's last decision says something of now.
const Recent = uint64(200 * time.Millisecond)

// Step takes in what was seen. limit is the most that the link may carry: its own
// rate, or what a person has set. It reports whether congestion is shared now.
func (u *Uplink) Step(limit uint64, s Signs, now uint64) (shared bool) {
	if u.CapacityBps == u.limit || u.CapacityBps > limit { // at first, too: both are 0
		*u = Uplink{CapacityBps: limit, ChangedNs: u.ChangedNs}
	}
	u.limit = limit
	since := now - u.ChangedNs
	if s.shared() {
		if since >= uint64(cutPause) && s.UsedBps > 0 {
			now31 := s.UsedBps - s.UsedBps>>cutShift
			u.CapacityBps = max(min(u.CapacityBps, now31), 1)
			u.ChangedNs, u.raises = now, 0
		}
		return true
	}
	if since >= uint64(raisePause) && u.CapacityBps < limit {
		step := max(u.CapacityBps>>raiseShift, 1) << min(u.raises/raiseDouble, raiseMost)
		u.CapacityBps += min(step, limit-u.CapacityBps)
		u.ChangedNs = now
		u.raises++
	}
	return false
}

// Judged reports that the estimate, and not limit, is what there is to share.
func (u *Uplink) Judged(limit uint64) bool { return u.CapacityBps != 0 && u.CapacityBps < limit }
