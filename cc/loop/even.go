// SPDX-License-Identifier: Apache-2.0

package loop

import "github.com/softroce/softroce-xdp/cc/fourcase"

// The link is divided evenly among the destinations that have data (S1.2), by demand
// (cc/priority.Even): when one comes or goes, all shares change. The four-case policy
// decides below the share of its destination (cc/priority.Bound).
//
// Where the node file gives priorities, they divide the link instead (priority.go).

// shareLink updates the share by the demands that are known in this evaluation.
func (s *senders) shareLink(link uint64, p *fourcase.Params) {
	s.demands = s.demands[:0]
	for _, x := range s.list {
		d := x.demand(s.tick, p)
		if x.limit != 0 {
			d = min(d, x.limit)
		}
		if d != 0 {
			s.demands = append(s.demands, d)
		}
	}
	s.even.Update(link, s.demands)
}

// demand returns the rate that the destination would use of the link, bit/s.
func (x *sender) demand(tick uint64, p *fourcase.Params) uint64 {
	age := tick - x.tick
	switch {
	case age > staleTicks:
		return 0
	case !x.stack.waits && !x.engine.waits:
		if age > 0 {
			return 0
		}
		return x.stack.steady() + x.engine.steady()
	case p.Mode == fourcase.ModeFixed:
		return x.policy
	}
	if limit := x.bound.Limit(p.MaxRateBps); x.policy < limit-limit>>4 {
		return x.policy + x.policy/4 // it cannot use more because of congestion
	}
	return p.MaxRateBps
}

// bounded limits the policy to a share. It returns the parameters for this step.
func (x *sender) bounded(r *fourcase.Regs, p *fourcase.Params, share uint64) fourcase.Params {
	q := *p
	if p.Mode == fourcase.ModeFixed {
		return q // the rate is configured: it stays in the registers
	}
	r.RateBps = x.bound.Apply(r.RateBps, share, p.MaxRateBps)
	q.MaxRateBps, q.MinRateBps = share, min(p.MinRateBps, share)
	return q
}

// decided records a decision of the policy. A decrease applies to the rate without the bound
// as well as to the bounded one.
func (x *sender) decided(d fourcase.Decision, r *fourcase.Regs) {
	x.policy = r.RateBps
	if d.Action.Cuts() {
		x.bound.Decreased(r.DecreaseQ10)
	}
}
