// SPDX-License-Identifier: Apache-2.0

package fourcase

import (
	"math"
	"math/bits"
)

// Rows of the completed table. The first whose condition holds is the one.
const (
	rowLoss        = iota // loss or CE: a law of its own
	rowFarAbove           // q_tx > 4D
	rowReceiver           // q_tx > D, both grow, q_rx > q_tx: case 1
	rowImproving          // q_tx > D, transmit grows, receive shrinks: case 3
	rowDraining           // q_tx > D, transmit shrinks: case 4
	rowAboveTarget        // q_tx > D otherwise: case 2, widened
	rowBaseDelay          // q_tx <= e: case 4 back at the base delay
	rowBelowTarget        // e < q_tx <= D
	rowOpenLoop           // no packet can cause feedback: openloop.go
)

// verdicts are the decisions of the rows. Row 0 has two: see signalCut.
var verdicts = [...]Verdict{
	rowFarAbove:    {ActionCut, 0, rowFarAbove, WhyFarAbove},
	rowReceiver:    {ActionBigCut, 1, rowReceiver, WhyReceiver},
	rowImproving:   {ActionHold, 3, rowImproving, WhyImproving},
	rowDraining:    {ActionHold, 4, rowDraining, WhyDraining},
	rowAboveTarget: {ActionCut, 2, rowAboveTarget, WhyAboveTarget},
	rowBaseDelay:   {ActionRaise, 4, rowBaseDelay, WhyBaseDelay},
	rowBelowTarget: {ActionHold, 0, rowBelowTarget, WhyBelowTarget},
}

// delayRow finds the row for a queueing delay q, a trend d and the levels D and e, all in
// nanoseconds. turnaround is the receiver's, 0 = unknown.
//
// A receive time that grows on the reverse path is no information about the forward path.
// Where the turnaround is known, row 2 requires it to be at least half of the queueing delay.
func delayRow(qTx, qRx, dTx, dRx, turnaround, d, e int64) uint8 {
	switch {
	case qTx > 4*d:
		return rowFarAbove
	case qTx > d && dTx > e && dRx > e && qRx > qTx && (turnaround <= 0 || turnaround >= qRx>>1):
		return rowReceiver
	case qTx > d && dTx > e && dRx < -e:
		return rowImproving
	case qTx > d && dTx < -e:
		return rowDraining
	case qTx > d:
		return rowAboveTarget
	case qTx <= e:
		return rowBaseDelay
	default:
		return rowBelowTarget
	}
}

// levels are the target D and the deadband e at a rate, and the scale that made
// D of TargetNs, in 1/1024.
//
// D is proportional to 1/sqrt(rate). Of two flows through one queue the slower one then
// tolerates more, so it increases while the faster one decreases. This makes rates converge,
// and not the sign of a trend. e is a quarter of D, so that the delay of a few packets does
// not count as a queue where packets take long.
//
// Near TargetRateBps D may be smaller, proportional to 1/rate^2: a flow through n queues
// measures their sum. That costs it a factor of n^2 by the first rule, and of sqrt(n) by the
// second. The second alone would use up the range of D within a few flows.
func (p *Params) levels(bps uint64) (d, e int64, scale uint64) {
	ratio := min(p.TargetRateBps<<20/bps, 1<<32-1)
	scale = max(uint64(isqrt32(uint32(ratio))), 1)
	full := p.TargetNs * scale >> 10
	target := min(full, p.TargetMaxNs)
	if p.TargetSteepQ10 != 0 && ratio < steepTo {
		steep := ratio * ratio >> 30 * uint64(p.TargetSteepQ10) >> 10
		target = min(target, p.TargetNs*steep>>10)
	}
	target = max(target, 2*p.DeadbandNs)
	return int64(target), int64(max(p.DeadbandNs, min(full>>2, target-target>>3))), scale
}

// steepTo is TargetRateBps / rate in 1/2^20. From there on 1/sqrt(rate) gives the smaller D
// for every TargetSteepQ10 of leastSteep or more, and no product overflows.
const (
	steepTo    = 16 << 20
	leastSteep = one / 64
)

// isqrt32 is the integer square root, by shifts, adds and compares.
func isqrt32(v uint32) uint32 {
	var root uint32
	for bit := uint32(1<<30) >> (bits.LeadingZeros32(v|1) &^ 1); bit != 0; bit >>= 2 {
		if try := root + bit; v >= try {
			v -= try
			root = root>>1 + bit
		} else {
			root >>= 1
		}
	}
	return root
}

// qLimit bounds a queueing delay before it is multiplied: 18 minutes, in nanoseconds.
const qLimit = 1 << 40

// delayCut is the proportional decrease beta*(q-D)/q in 1/1024, for q > D: one and a half
// times that if the receiver is slow, and twice that far above the target, where speed
// matters more than an undershoot. If the queue grew by more than D/4, it is at least the share
// of the arrivals that was too much, unless decisions are more than 16 intervals apart. It is at
// most the decrease that drains the queue above D and stops its growth until the next decision:
// where decisions are far apart, a queue of milliseconds is no reason to halve a rate.
func (p *Params) delayCut(row uint8, q, d, grown int64, period uint64) uint64 {
	q = min(q, qLimit)
	cut := uint64(p.BetaQ10) * uint64(max(q-d, 0)) / uint64(q)
	switch row {
	case rowFarAbove:
		cut <<= 1
	case rowReceiver:
		cut += cut >> 1
	}
	if period > 0 {
		if grown > d>>2 && period <= 16*p.IntervalNs {
			grew := uint64(min(grown, qLimit))
			cut = max(cut, grew<<10/(grew+period))
		}
		next := uint64(max(q-d+min(max(grown, -qLimit), qLimit), 0))
		cut = min(cut, next*(one+one/4)/period)
	}
	return min(max(cut, 1), uint64(p.MaxCutQ10))
}

// ceCut is the decrease for marks in 1/1024, in proportion to the share of marked echoes.
func (p *Params) ceCut(s *Sample) uint64 {
	echoes := max(s.Samples, s.CE)
	return max(uint64(p.CECutQ10)*uint64(s.CE)/uint64(echoes), 1)
}

// raiseBy is the increase in bits per second. Relative to the rate it is proportional to
// 1/sqrt(rate), as D is, so that slow flows catch up. It accelerates from the RaiseAfter-th
// increase in a row until the next hold or decrease. Below the rate before the last decrease
// it is at least 1/2^recoverShift of the difference to it, or a quarter of MaxRaiseQ10 if that
// is less. It goes to 0 as the queueing delay approaches the deadband, which keeps the overshoot
// small: e is the deadband without delay spikes, room the one in force minus the queueing delay.
func (p *Params) raiseBy(r *Regs, scale uint64, d, e, room int64) uint64 {
	q10 := max(uint64(p.RaiseQ10)*scale>>10, 1)
	if r.Increases >= p.RaiseAfter && r.RateBeforeDecreaseBps == 0 {
		// Until the next decision an increase adds at most a queue of D/2.
		most := max(uint64(d)<<9/r.PeriodNs, one/16)
		q10 = max(q10, min(q10<<min(r.Increases-p.RaiseAfter+1, 20), most))
	}
	q10 = min(q10, uint64(p.MaxRaiseQ10))
	by := part(r.RateBps, q10)
	if r.RateBeforeDecreaseBps > r.RateBps {
		by = max(by, min((r.RateBeforeDecreaseBps-r.RateBps)>>recoverShift, part(r.RateBps, uint64(p.MaxRaiseQ10)>>2)))
	}
	if room < e {
		by = max(by>>10*(uint64(room)<<10/uint64(e)), 1)
	}
	return by
}

// recoverShift: an increase is at least 1/2^recoverShift of the last decrease not yet made up for.
const recoverShift = 4

// fewSamples is how many echoes a window needs so that its minimum contains no scheduling
// jitter of the hosts.
const fewSamples = 3

// confirmedDelay updates the queueing delay and returns the one that selects the row. Where a
// window has few samples, or each packet has a different delay, queueing delay above D counts
// only up to that of the decision before.
func (r *Regs) confirmedDelay(m times, samples uint32, d int64) int64 {
	last, confirm := r.QueueingTxNs, r.State&StateTrend != 0 && (samples < fewSamples || r.CommonModeNs > 0)
	r.updateQueueingDelay(m)
	if confirm {
		return min(r.QueueingTxNs, max(last, d))
	}
	return r.QueueingTxNs
}

// updatePeriod updates the smoothed time between decisions with the time since the decision
// before, and returns that. Pauses of the sender do not count in full.
func (r *Regs) updatePeriod(p *Params, now uint64) (elapsed uint64) {
	elapsed = now - r.DecidedNs
	if r.Decisions == 0 || r.PeriodNs == 0 {
		r.PeriodNs = max(p.IntervalNs, 1)
		return elapsed
	}
	r.PeriodNs = max((r.PeriodNs+min(elapsed, 16*r.PeriodNs))>>1, 1)
	return elapsed
}

// drainedByOthers reports whether the queue drained faster than the last decrease can have
// drained it. If the queue did not shrink before, arrivals were at least as many as
// departures, and a decrease by a share drains at most that share of the elapsed time.
func (r *Regs) drainedByOthers(elapsed uint64, fellBefore, d int64) bool {
	cut := min(elapsed, qLimit) * uint64(r.DecreaseQ10) >> 10
	return r.DecreaseQ10 > 0 && -r.TrendTxNs > int64(cut)+int64(cut)>>2+fellBefore+d
}

// robust is one step by the completed table. The stages:
//  0. data that causes no feedback has a law of its own
//  1. update the base delays with the sample
//  2. loss and CE decrease the rate, for any interval or delay
//  3. at most one decision in an interval
//  4. find the row and apply its decision
func (r *Regs) robust(p *Params, s *Sample, now uint64) Decision {
	m, feedback := s.times()
	// An RTT is positive. If the sum of the one-way times is not, they are from
	// before and after a step of a clock.
	mixed := feedback && m.rtt <= 0
	feedback = feedback && !mixed
	m = r.split(p, m, now)
	first := feedback && !r.track(p, m, now)
	decides := feedback && !first && !s.Idle
	if !feedback && !mixed && s.OpenLoop && s.CE == 0 && p.Mode == ModeRobust {
		return r.openLoop(p, s, now)
	}
	r.updateLoss(s, feedback)

	if p.Mode == ModeFixed {
		if decides && now-r.DecidedNs >= p.IntervalNs {
			r.updateQueueingDelay(m)
			return r.decide(p, Verdict{Action: ActionHold, Row: NoRow, Why: WhyFixed}, 0, now)
		}
		return r.none(WhyFixed)
	}

	signal := s.Loss > 0 || s.CE > 0
	if signal && now-r.DecreasedNs >= max(p.IntervalNs, r.latestRTT()) {
		if cut, v := r.signalCut(p, s, m, decides); cut > 0 {
			if !decides {
				v = r.aboveFloor(p, v)
			}
			return r.decide(p, v, part(r.RateBps, cut), now)
		}
		signal = false
	}

	switch {
	case mixed:
		return r.none(WhyClockStep)
	case !feedback:
		return r.none(WhyNoFeedback)
	case first:
		return r.none(WhyFirstSample)
	case s.Idle:
		return r.none(WhyIdleSample)
	case now-r.DecidedNs < p.IntervalNs:
		return r.none(WhyInterval)
	}

	elapsed := r.updatePeriod(p, now)
	d, e, scale := p.levels(r.RateBps)
	before, trend := r.QueueingTxNs, r.TrendTxNs
	q := r.confirmedDelay(m, s.Samples, d+int64(r.SpikeNs)+int64(r.CommonModeNs))
	r.updateOscillation(p, trend, d, elapsed)
	r.adaptCommonMode(p, e)
	common := r.ignoredDelay(d)
	q, before = q-common, before-common
	band := e
	d, e = r.updateSpikes(before, q, d, e)
	row := delayRow(q, r.QueueingRxNs-common, r.TrendTxNs, r.TrendRxNs, s.Turn, d, e)
	out := verdicts[row]
	var amount uint64
	switch {
	case out.Action.Cuts():
		amount = part(r.RateBps, p.delayCut(row, q, d, r.TrendTxNs, r.PeriodNs))
	case signal && out.Action == ActionRaise:
		out.Action, out.Why = ActionHold, WhyLossRecent
	case q <= d && !signal && !s.AppLimited && r.drainedByOthers(elapsed, max(-trend, 0), d):
		out.Action, out.Why = ActionRaise, WhyUndone
		amount = max(r.RateBps*uint64(r.DecreaseQ10)/uint64(one-min(r.DecreaseQ10, one-1)), 1)
		r.Undos = uint16(min(uint32(r.Undos)+1, math.MaxUint16))
	case out.Action == ActionRaise:
		amount = p.raiseBy(r, scale, d, band, e-q)
		if s.AppLimited {
			out, amount = r.upToShare(s, out, amount)
		}
	}
	return r.decide(p, out, amount, now)
}

// signalCut is row 0: the decrease for loss or CE in 1/1024, 0 = a decrease does not help
// against this loss.
func (r *Regs) signalCut(p *Params, s *Sample, m times, decides bool) (cut uint64, v Verdict) {
	v = Verdict{Action: ActionCECut, Row: rowLoss, Why: WhyCE}
	d, e, _ := p.levels(r.RateBps)
	q := r.QueueingTxNs
	if decides {
		q = m.tx - r.BaseTxNs
	}
	common := r.ignoredDelay(d)
	q -= common
	if s.CE > 0 {
		cut = p.ceCut(s)
	}
	if s.Loss > 0 {
		if loss := p.lossCut(r, q, d, e); loss >= cut {
			cut, v.Action, v.Why = loss, ActionLossCut, WhyLoss
		}
	}
	if cut == 0 || !decides {
		return cut, v
	}
	q = r.confirmedDelay(m, s.Samples, d+common) - common
	if q > 4*d {
		cut = max(cut, p.delayCut(rowFarAbove, q, d, r.TrendTxNs, r.PeriodNs))
	} else if q > d {
		cut = max(cut, p.delayCut(rowAboveTarget, q, d, r.TrendTxNs, r.PeriodNs))
	}
	return cut, v
}
