// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"math/bits"

	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// The link is split evenly over the destinations (S1.2), over those that have data: when
// one comes or goes it is shared out again, by demand. Who wants little leaves the rest
// to others. A share is the most that the four-case policy may decide for its
// destination; what the policy had found out before is remembered, and is in force again
// when the others are gone.
//
// Where the node file gives priorities, they share the link instead (priority.go).

// shareLink finds the level, with all that is known of this evaluation so far.
func (s *senders) shareLink(link uint64, p *fourcase.Params) {
	s.wants = s.wants[:0]
	for _, x := range s.list {
		if w := x.want(s.turn, p); w != 0 {
			s.wants = append(s.wants, w)
		}
	}
	level := priority.Level(link, s.wants)
	if level >= link-link>>levelShift {
		level = 0
	}
	if off := max(level, s.level) - min(level, s.level); level == 0 || s.level == 0 || off > s.level>>levelShift {
		s.level = level
	}
}

// levelShift: a level stays until it is off by 1/2^levelShift. Echoes of what left under
// another rate do not count, so that a rate that changes with each whim of other
// destinations would have no feedback on a long way.
const levelShift = 5

// want is what the destination would take of the link, bit/s.
func (x *sender) want(turn uint64, p *fourcase.Params) uint64 {
	age := turn - x.turn
	switch {
	case age > staleTurns:
		return 0
	case !x.stack.waits && !x.engine.waits:
		if age > 0 {
			return 0
		}
		return x.stack.steady() + x.engine.steady()
	case p.Mode == fourcase.ModeFixed:
		return x.policy
	}
	limit := x.limit
	if limit == 0 {
		limit = p.MaxRateBps
	}
	if x.policy < limit-limit>>4 {
		return x.policy + x.policy/4 // for congestion it cannot use more
	}
	return p.MaxRateBps
}

// share is what a destination may have of the link at most.
func (s *senders) share(p *fourcase.Params) uint64 {
	if s.level == 0 {
		return p.MaxRateBps
	}
	return max(min(s.level, p.MaxRateBps), 1)
}

// bound has the policy work below a share: its rate comes down to it, and up with it as
// far as the policy itself had been. It returns the parameters for this step.
func (x *sender) bound(r *fourcase.Regs, p *fourcase.Params, share uint64) fourcase.Params {
	q := *p
	if p.Mode == fourcase.ModeFixed {
		return q // its rate is no finding, and stays in the registers
	}
	if x.limit == 0 {
		x.limit = p.MaxRateBps
	}
	switch {
	case r.RateBps > share:
		x.free = max(x.free, r.RateBps)
		r.RateBps = share
	case x.free > x.limit && share > x.limit:
		// At its share, or as far below as the last cuts have taken it.
		hi, lo := bits.Mul64(min(r.RateBps, x.limit), share)
		up, _ := bits.Div64(hi, lo, x.limit)
		r.RateBps = min(up, x.free, share)
	}
	if x.free <= share {
		x.free = 0
	}
	x.limit = share
	q.MaxRateBps, q.MinRateBps = share, min(p.MinRateBps, share)
	return q
}

// judged takes in what the policy has decided: congestion speaks against the rate of
// before as much as against that of now.
func (x *sender) judged(d fourcase.Decision, r *fourcase.Regs) {
	x.policy = r.RateBps
	if d.Action.Cuts() {
		x.free -= (x.free >> 10) * uint64(r.CutQ10)
	}
}
