// SPDX-License-Identifier: Apache-2.0

package fourcase

import "math/bits"

// Step takes what one window gathered into the registers and decides the rate.
// now is the caller's monotonic clock in nanoseconds. p must have passed
// Validate. A decision that is not ActionNone leaves its trace in r.
func Step(r *Regs, p *Params, s Sample, now uint64) Decision {
	if r.RateBps == 0 {
		r.RateBps = p.start()
	}
	r.RateBps = min(max(r.RateBps, p.leastRate()), p.MaxRateBps)
	if p.Mode == ModeLiteral {
		return r.literal(p, &s, now)
	}
	return r.robust(p, &s, now)
}

// idleFor is how many periods without a decision make a destination idle.
const idleFor = 128

// Wake is for a destination that has data again. What an earlier congestion made
// of its rate is forgotten after a while: it gets its even share back, if that is
// more. The caller says that it is idle, as a window without feedback may also be
// one of a peer that does not answer.
func Wake(r *Regs, p *Params, now uint64) {
	if r.RateBps == 0 {
		r.RateBps = min(max(p.start(), p.leastRate()), p.MaxRateBps)
		return
	}
	if p.Mode != ModeRobust || r.Decisions == 0 || now-r.DecidedNs < idleFor*max(r.PeriodNs, p.IntervalNs) {
		return
	}
	if p.InitialRateBps != 0 {
		r.RateBps = max(r.RateBps, p.InitialRateBps)
	}
	r.FromBps, r.Raises, r.AtMin, r.CutQ10, r.Blind = 0, 0, 0, 0, 0
	r.State &^= StateTrend
	r.LossQ20 = 0
}

// WindowBytes is how much may be under way at the rate in force while the delay
// is at most one and a half times what the policy aims at, so that rates and not windows share
// the bottleneck: a sender that has more out than this feeds
// a queue that no decision has seen yet. What waits on the way back is no reason
// to hold data back, nor is the jitter that both ways have. rttNs is the round trip without queues.
func WindowBytes(r *Regs, p *Params, rttNs uint64) uint64 {
	d, _, _ := p.levels(max(r.RateBps, 1))
	whole := min(rttNs, maxTimeLimit>>10) + uint64(d+d>>1+r.leftOut(d)+min(max(r.QRxNs, 0), qLimit>>10))
	hi, lo := bits.Mul64(r.RateBps, whole)
	window, _ := bits.Div64(hi, lo, 8e9) // hi < 2^12
	return max(window, 1)
}

// start is the rate of a new destination (S1.2).
func (p *Params) start() uint64 {
	if p.InitialRateBps != 0 {
		return p.InitialRateBps
	}
	return p.MaxRateBps
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
	before := r.RateBps
	r.CutQ10 = 0
	switch {
	case v.Action.Cuts() && before <= p.MinRateBps && (r.AtMin < minPatience || before == p.leastRate()):
		v.Action, v.Why = ActionHold, WhyAtMin
		if r.DTxNs >= 0 && r.AtMin < minPatience {
			r.AtMin++ // the queue does not even drain
		}
	case v.Action.Cuts():
		least := p.MinRateBps
		if before <= least {
			least, r.AtMin = p.leastRate(), 0
		}
		r.RateBps = max(before-min(amount, before), least)
		r.CutQ10 = uint32((before - r.RateBps) << 10 / before)
		r.FromBps = before
		r.CutNs = now
		r.Cuts++
	case v.Action == ActionRaise && before == p.MaxRateBps:
		v.Action, v.Why = ActionHold, WhyAtMax
	case v.Action == ActionRaise:
		r.RateBps = min(before+amount, p.MaxRateBps)
		if r.FromBps != 0 && r.RateBps >= r.FromBps {
			r.FromBps, r.Raises = 0, 0
		}
	}
	if v.Action == ActionRaise {
		r.Raises++
	} else {
		r.Raises = 0
	}
	if r.RateBps > p.MinRateBps {
		r.AtMin = 0
	}
	r.DecidedNs = now
	r.Decisions++
	r.CaseNo, r.Row, r.Action = v.Case, v.Row, v.Action
	return Decision{r.RateBps, v}
}

// minPatience is how many decisions must want to cut at MinRateBps or below it
// before one does, and belowMin how far this can go, as a shift.
const (
	minPatience = 4
	belowMin    = 6
)

// leastRate is the lowest rate that there is. MinRateBps is where more senders
// than expected share a bottleneck as long as that helps; if the queue stands all
// the same, rates below it are all that is left.
func (p *Params) leastRate() uint64 {
	if p.Mode == ModeFixed {
		return p.MinRateBps // nothing cuts, so that nothing is below it for a reason
	}
	return max(p.MinRateBps>>belowMin, 1)
}

// part is q10/1024 of a rate, at least 1 bit/s: a cut always cuts and a raise
// always raises.
func part(bps, q10 uint64) uint64 { return max(bps*q10>>10, 1) }
