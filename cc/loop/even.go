// SPDX-License-Identifier: Apache-2.0

package loop

import "github.com/softroce/softroce-xdp/cc/fourcase"

// The link is divided evenly among the destinations that have data (S1.2), by demand
// (cc/priority.Even): when one comes or goes, all shares change. The four-case policy
// decides below the share of its destination (cc/priority.ShareBound).
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
	if limit := x.share.Limit(p.MaxRateBps); x.policy < limit-limit>>4 {
		return x.policy + x.policy/4 // it cannot use more because of congestion
	}
	return p.MaxRateBps
}

// evenShare returns the even share of a destination, at most max_rate_bps. Where the nodes have
// priorities, it is max_rate_bps.
func (l *Loop) evenShare(p *fourcase.Params) uint64 {
	if l.prioritizes() {
		return p.MaxRateBps
	}
	return l.senders.even.Share(p.MaxRateBps)
}

// below limits the policy to a share. It returns the parameters for this step.
func (x *sender) below(r *fourcase.Regs, p *fourcase.Params, share uint64) fourcase.Params {
	q := *p
	if p.Mode == fourcase.ModeFixed {
		return q // the rate is configured: it stays in the registers
	}
	r.RateBps = x.share.Apply(r.RateBps, share, p.MaxRateBps)
	q.MaxRateBps, q.MinRateBps = share, min(p.MinRateBps, share)
	return q
}

// decided records a decision of the policy. A decrease applies to the rate without the bound
// as well as to the bounded one.
func (x *sender) decided(d fourcase.Decision, r *fourcase.Regs) {
	x.policy = r.RateBps
	if d.Action.Cuts() {
		x.share.Decreased(r.DecreaseQ10)
	}
}
