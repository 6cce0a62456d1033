// SPDX-License-Identifier: Apache-2.0

package fourcase

// Step takes what one window gathered into the registers and decides the rate.
// now is the caller's monotonic clock in nanoseconds. p must have passed
// Validate. A decision that is not ActionNone leaves its trace in r.
func Step(r *Regs, p *Params, s Sample, now uint64) Decision {
	if r.RateBps == 0 {
		r.RateBps = p.InitialRateBps
		if r.RateBps == 0 {
			r.RateBps = p.MaxRateBps
		}
	}
	r.RateBps = p.clamp(r.RateBps)
	if p.Mode == ModeLiteral {
		return r.literal(p, &s, now)
	}
	return r.robust(p, &s, now)
}

// EvenShare is the rate of one of n destinations when nothing is known yet: the
// link's rate split evenly (S1.2), bits per second. Without destinations the
// whole link is free for the first.
func EvenShare(linkBps uint64, n int) uint64 {
	if n <= 1 {
		return linkBps
	}
	return max(linkBps/uint64(n), 1)
}

func (p *Params) clamp(bps uint64) uint64 {
	return min(max(bps, p.MinRateBps), p.MaxRateBps)
}

// none is the outcome of a window that decides nothing.
func (r *Regs) none(why Why) Decision {
	return Decision{r.RateBps, Verdict{Row: NoRow, Why: why}}
}

// see notes the times that a decision judges by, as excess over the baseline,
// and their change since the decision before.
func (r *Regs) see(m times) {
	qTx, qRx := m.tx-r.BaseTxNs, m.rx-r.BaseRxNs
	r.DTxNs, r.DRxNs = 0, 0
	if r.State&StateTrend != 0 {
		r.DTxNs, r.DRxNs = qTx-r.QTxNs, qRx-r.QRxNs
	}
	r.QTxNs, r.QRxNs = qTx, qRx
	r.State |= StateTrend
}

// decide carries a decision out: the rate, and the trace in the registers.
// amount is how much of the rate is cut, or added, in bits per second.
func (r *Regs) decide(p *Params, v Verdict, amount, now uint64) Decision {
	switch {
	case v.Action.Cuts() && r.RateBps == p.MinRateBps:
		v.Action, v.Why = ActionHold, WhyAtMin
	case v.Action.Cuts():
		r.RateBps = max(r.RateBps-min(amount, r.RateBps), p.MinRateBps)
		r.CutNs = now
		r.Cuts++
	case v.Action == ActionRaise && r.RateBps == p.MaxRateBps:
		v.Action, v.Why = ActionHold, WhyAtMax
	case v.Action == ActionRaise:
		r.RateBps = min(r.RateBps+amount, p.MaxRateBps)
	}
	if v.Action == ActionRaise {
		r.Raises++
	} else {
		r.Raises = 0
	}
	r.DecidedNs = now
	r.Decisions++
	r.CaseNo, r.Row, r.Action = v.Case, v.Row, v.Action
	return Decision{r.RateBps, v}
}

// part is q10/1024 of a rate, at least 1 bit/s: a cut always cuts and a raise
// always raises.
func part(bps, q10 uint64) uint64 { return max(bps*q10>>10, 1) }
