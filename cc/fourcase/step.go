// SPDX-License-Identifier: Apache-2.0

package fourcase

import "math/bits"

// Step updates the registers with the measurements of one window and decides the rate. now
// is the caller's monotonic clock in nanoseconds. p must have passed Validate. r shows each
// decision except ActionNone.
func Step(r *Regs, p *Params, s Sample, now uint64) Decision {
	if r.RateBps == 0 {
		r.RateBps = p.start()
	}
	r.RateBps = min(max(r.RateBps, p.minimumRate()), p.MaxRateBps)
	if p.Mode == ModeLiteral {
		return r.literal(p, &s, now)
	}
	return r.robust(p, &s, now)
}

// idleFor is how many periods without a decision make a destination idle.
const idleFor = 128

// RestartIdle is called for a destination that was idle and has data again. If the last
// decision is long ago, the rate rises to the even share, and state of earlier congestion is
// reset. The caller knows that the destination was idle; a window without feedback may also
// be that of a peer that does not answer.
func RestartIdle(r *Regs, p *Params, now uint64) {
	if r.RateBps == 0 {
		r.RateBps = min(max(p.start(), p.minimumRate()), p.MaxRateBps)
		return
	}
	if p.Mode != ModeRobust || r.Decisions == 0 || now-r.DecidedNs < idleFor*max(r.PeriodNs, p.IntervalNs) {
		return
	}
	if p.InitialRateBps != 0 {
		r.RateBps = max(r.RateBps, p.InitialRateBps)
	}
	r.RateBeforeDecreaseBps, r.Increases, r.FloorPatience, r.DecreaseQ10, r.NoFeedback = 0, 0, 0, 0, 0
	r.State &^= StateTrend
	r.LossQ20 = 0
}

// WindowBytes is the limit on bytes in flight at the rate in force: base RTT (rttNs) and one
// and a half times the target D, so that rates and not windows share the bottleneck. More
// bytes in flight fill a queue that no decision has measured yet. The queueing delay of the
// reverse path and common-mode jitter increase the window, as neither is a reason to send
// less.
func WindowBytes(r *Regs, p *Params, rttNs uint64) uint64 {
	d, _, _ := p.levels(max(r.RateBps, 1))
	whole := min(rttNs, maxTimeLimit>>10) + uint64(d+d>>1+r.ignoredDelay(d)+min(max(r.QueueingRxNs, 0), qLimit>>10))
	hi, lo := bits.Mul64(r.RateBps, whole)
	window, _ := bits.Div64(hi, lo, 8e9) // hi < 2^21, below the divisor: rate <= 2^42, whole < 2^43
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

// none is the outcome of a window without a decision.
func (r *Regs) none(why Why) Decision {
	return Decision{r.RateBps, Verdict{Row: NoRow, Why: why}}
}

// updateQueueingDelay stores the queueing delay of both directions and its change since the
// decision before.
func (r *Regs) updateQueueingDelay(m times) {
	qTx, qRx := m.tx-r.BaseTxNs, m.rx-r.BaseRxNs
	r.TrendTxNs, r.TrendRxNs = 0, 0
	if r.State&StateTrend != 0 {
		r.TrendTxNs, r.TrendRxNs = qTx-r.QueueingTxNs, qRx-r.QueueingRxNs
	}
	r.QueueingTxNs, r.QueueingRxNs = qTx, qRx
	r.State |= StateTrend
}

// decide applies a decision to the rate and stores it in the registers. amount is the
// decrease or increase in bits per second.
func (r *Regs) decide(p *Params, v Verdict, amount, now uint64) Decision {
	before := r.RateBps
	r.DecreaseQ10 = 0
	switch {
	case v.Action.Cuts() && before <= p.MinRateBps && (r.FloorPatience < floorPatience || before == p.minimumRate()):
		v.Action, v.Why = ActionHold, WhyAtMin
		if r.TrendTxNs >= 0 && r.FloorPatience < floorPatience {
			r.FloorPatience++ // the queue does not drain
		}
	case v.Action.Cuts():
		least := p.MinRateBps
		if before <= least {
			least, r.FloorPatience = p.minimumRate(), 0
		}
		r.RateBps = max(before-min(amount, before), least)
		r.DecreaseQ10 = uint32((before - r.RateBps) << 10 / before)
		r.RateBeforeDecreaseBps = before
		r.DecreasedNs = now
		r.Decreases++
	case v.Action == ActionRaise && before == p.MaxRateBps:
		v.Action, v.Why = ActionHold, WhyAtMax
	case v.Action == ActionRaise:
		r.RateBps = min(before+amount, p.MaxRateBps)
		if r.RateBeforeDecreaseBps != 0 && r.RateBps >= r.RateBeforeDecreaseBps {
			r.RateBeforeDecreaseBps, r.Increases = 0, 0
		}
	}
	if v.Action == ActionRaise {
		r.Increases++
	} else {
		r.Increases = 0
	}
	if r.RateBps > p.MinRateBps {
		r.FloorPatience = 0
	}
	r.DecidedNs = now
	r.Decisions++
	r.CaseNo, r.Row, r.Action = v.Case, v.Row, v.Action
	return Decision{r.RateBps, v}
}

// A decrease at or below MinRateBps needs floorPatience decisions before it, and the rate
// never falls below MinRateBps / 2^floorShift.
const (
	floorPatience = 4
	floorShift    = 6
)

// minimumRate is the lowest rate that a decision can lead to. MinRateBps is the limit where
// more senders than expected share a bottleneck. If the queue does not drain there, only
// lower rates help.
func (p *Params) minimumRate() uint64 {
	if p.Mode == ModeFixed {
		return p.MinRateBps // there are no decreases, so no rate is below it for a reason
	}
	return max(p.MinRateBps>>floorShift, 1)
}

// part is q10/1024 of a rate, at least 1 bit/s, so that each decrease and increase changes
// the rate.
func part(bps, q10 uint64) uint64 { return max(bps*q10>>10, 1) }
