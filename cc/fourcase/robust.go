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
	rowBaseline           // q_tx <= e: case 4 back at baseline
	rowBelowTarget        // e < q_tx <= D
	rowOpenLoop           // nothing that was sent can be answered: openloop.go
)

// verdicts are what the rows say. Row 0 is in two kinds: see lossCut.
var verdicts = [...]Verdict{
	rowFarAbove:    {ActionCut, 0, rowFarAbove, WhyFarAbove},
	rowReceiver:    {ActionBigCut, 1, rowReceiver, WhyReceiver},
	rowImproving:   {ActionHold, 3, rowImproving, WhyImproving},
	rowDraining:    {ActionHold, 4, rowDraining, WhyDraining},
	rowAboveTarget: {ActionCut, 2, rowAboveTarget, WhyAboveTarget},
	rowBaseline:    {ActionRaise, 4, rowBaseline, WhyBaseline},
	rowBelowTarget: {ActionHold, 0, rowBelowTarget, WhyBelowTarget},
}

// delayRow finds the row for an excess q, a trend d and the levels D and e, all
// in nanoseconds. turn is the receiver's turnaround, 0 = unknown.
//
// Receive time that grows on the way back says nothing about the way out, so
// where the turnaround is known, row 2 wants it to be most of the excess.
func delayRow(qTx, qRx, dTx, dRx, turn, d, e int64) uint8 {
	switch {
	case qTx > 4*d:
		return rowFarAbove
	case qTx > d && dTx > e && dRx > e && qRx > qTx && (turn <= 0 || turn >= qRx>>1):
		return rowReceiver
	case qTx > d && dTx > e && dRx < -e:
		return rowImproving
	case qTx > d && dTx < -e:
		return rowDraining
	case qTx > d:
		return rowAboveTarget
	case qTx <= e:
		return rowBaseline
	default:
		return rowBelowTarget
	}
}

// levels are the target D and the deadband e at a rate, and the scale that made
// D of TargetNs, in 1/1024.
//
// D grows as 1/sqrt(rate). Of two flows through one queue the slower one then
// tolerates more, so it raises while the faster one cuts: that, and not the sign
// of a trend, is what makes rates meet. e is a quarter of that, so that the delay of
// a few packets does not count as a queue where packets take long.
//
// Near TargetRateBps D may be less, and grow as 1/rate^2: a flow that crosses n queues sees
// their sum. By the first rule that costs it a factor of n^2, by the second of sqrt(n). The second
// alone would use up the range of D within a few flows.
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

// steepTo is TargetRateBps over the rate, in 1/2^20, from where on 1/sqrt(rate) is the
// lesser with every TargetSteepQ10 from leastSteep on; and no product overflows.
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

// qLimit bounds an excess before it is multiplied: 18 minutes.
const qLimit = 1 << 40

// delayCut is the proportional cut beta*(q-D)/q in 1/1024, for q > D: half as
// much again if the receiver is slow, and twice as much far above the target,
// where being quick matters more than not to undershoot. It is no more than what
// drains the excess, and stops its growth, until the next decision: where
// decisions are far apart, a queue of milliseconds is no reason to halve a rate.
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

// ceCut follows the share of marked echoes.
func (p *Params) ceCut(s *Sample) uint64 {
	echoes := max(s.Samples, s.CE)
	return max(uint64(p.CECutQ10)*uint64(s.CE)/uint64(echoes), 1)
}

// raiseBy is the raise in bits per second. Like D it grows, relative to the
// rate, as 1/sqrt(rate), so that slow flows catch up. It accelerates, once raises
// go on, until the next hold or cut. Below the rate that was cut last it is at
// least a part of the way back to it. It tapers off as the excess nears e, so
// that it ends in a small overshoot: room is what is left of e.
func (p *Params) raiseBy(r *Regs, scale uint64, d, e, room int64) uint64 {
	q10 := max(uint64(p.RaiseQ10)*scale>>10, 1)
	if r.Raises >= p.RaiseAfter && r.FromBps == 0 {
		// A raise makes at most its share of the time to the next decision of queue.
		most := max(uint64(d)<<9/r.PeriodNs, one/16)
		q10 = max(q10, min(q10<<min(r.Raises-p.RaiseAfter+1, 20), most))
	}
	q10 = min(q10, uint64(p.MaxRaiseQ10))
	by := part(r.RateBps, q10)
	if r.FromBps > r.RateBps {
		by = max(by, min((r.FromBps-r.RateBps)>>wayBack, part(r.RateBps, uint64(p.MaxRaiseQ10)>>2)))
	}
	if room < e {
		by = max(by>>10*(uint64(room)<<10/uint64(e)), 1)
	}
	return by
}

// wayBack: a raise goes 1/2^wayBack of the way back to the rate that was cut.
const wayBack = 4

// fewSamples is how many echoes a window needs for its minimum to be free of the
// hosts' scheduling jitter.
const fewSamples = 3

// judged notes the times and returns the excess that the row is found by. Where
// a window has few samples, or each has a delay of its own, an excess over D counts only
// as far as the decision before saw it too.
func (r *Regs) judged(m times, samples uint32, d int64) int64 {
	last, confirm := r.QTxNs, r.State&StateTrend != 0 && (samples < fewSamples || r.CommonNs > 0)
	r.see(m)
	if confirm {
		return min(r.QTxNs, max(last, d))
	}
	return r.QTxNs
}

// passed notes the time since the decision before in the smoothed period, where
// there is one. Pauses of the sender do not count in full.
func (r *Regs) passed(p *Params, now uint64) (elapsed uint64) {
	elapsed = now - r.DecidedNs
	if r.Decisions == 0 || r.PeriodNs == 0 {
		r.PeriodNs = max(p.IntervalNs, 1)
		return elapsed
	}
	r.PeriodNs = max((r.PeriodNs+min(elapsed, 16*r.PeriodNs))>>1, 1)
	return elapsed
}

// notOurs says whether the excess went faster than it could by our last cut. Where
// the queue did not shrink before the cut, as much came in as went out, and a cut by a share takes
// that share of the time passed off it, at most, whoever else cuts.
func (r *Regs) notOurs(elapsed uint64, fellBefore, d int64) bool {
	cut := min(elapsed, qLimit) * uint64(r.CutQ10) >> 10
	return r.CutQ10 > 0 && -r.DTxNs > int64(cut)+int64(cut)>>2+fellBefore+d
}

// robust is one step by the completed table. The stages:
//  0. data that nothing can answer has a law of its own
//  1. take the sample into the baselines
//  2. loss and CE cut, whatever the interval or the delay say
//  3. at most one decision in an interval
//  4. find the row, carry it out
func (r *Regs) robust(p *Params, s *Sample, now uint64) Decision {
	m, feedback := s.times()
	// A round trip takes time. If the parts say it does not, they are from
	// before and after a step of a clock.
	mixed := feedback && m.rtt <= 0
	feedback = feedback && !mixed
	m = r.split(p, m, now)
	first := feedback && !r.track(p, m, now)
	judge := feedback && !first && !s.Idle
	if !feedback && !mixed && s.OpenLoop && s.CE == 0 && p.Mode == ModeRobust {
		return r.openLoop(p, s, now)
	}
	r.noteLoss(s, feedback)

	if p.Mode == ModeFixed {
		if judge && now-r.DecidedNs >= p.IntervalNs {
			r.see(m)
			return r.decide(p, Verdict{Action: ActionHold, Row: NoRow, Why: WhyFixed}, 0, now)
		}
		return r.none(WhyFixed)
	}

	signal := s.Loss > 0 || s.CE > 0
	if signal && now-r.CutNs >= max(p.IntervalNs, r.roundTrip()) {
		if cut, v := r.signalCut(p, s, m, judge); cut > 0 {
			if !judge {
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

	elapsed := r.passed(p, now)
	d, e, scale := p.levels(r.RateBps)
	before, trend := r.QTxNs, r.DTxNs
	q := r.judged(m, s.Samples, d+int64(r.JitterNs)+int64(r.CommonNs))
	r.learnCommon(p, trend, d, e, elapsed)
	common := r.leftOut(d)
	q, before = q-common, before-common
	band := e
	d, e = r.noise(before, q, d, e)
	row := delayRow(q, r.QRxNs-common, r.DTxNs, r.DRxNs, s.Turn, d, e)
	out := verdicts[row]
	var amount uint64
	switch {
	case out.Action.Cuts():
		amount = part(r.RateBps, p.delayCut(row, q, d, r.DTxNs, r.PeriodNs))
	case signal && out.Action == ActionRaise:
		out.Action, out.Why = ActionHold, WhyLossRecent
	case q <= d && !signal && !s.AppLimited && r.notOurs(elapsed, max(-trend, 0), d):
		out.Action, out.Why = ActionRaise, WhyRestored
		amount = max(r.RateBps*uint64(r.CutQ10)/uint64(one-min(r.CutQ10, one-1)), 1)
		r.Restores = uint16(min(uint32(r.Restores)+1, math.MaxUint16))
	case out.Action == ActionRaise:
		amount = p.raiseBy(r, scale, d, band, e-q)
		if s.AppLimited {
			out, amount = r.upToShare(s, out, amount)
		}
	}
	return r.decide(p, out, amount, now)
}

// signalCut is row 0: the cut for loss or CE in 1/1024, 0 = this loss is none that
// a cut helps against.
func (r *Regs) signalCut(p *Params, s *Sample, m times, judge bool) (cut uint64, v Verdict) {
	v = Verdict{Action: ActionCECut, Row: rowLoss, Why: WhyCE}
	d, e, _ := p.levels(r.RateBps)
	q := r.QTxNs
	if judge {
		q = m.tx - r.BaseTxNs
	}
	common := r.leftOut(d)
	q -= common
	if s.CE > 0 {
		cut = p.ceCut(s)
	}
	if s.Loss > 0 {
		if loss := p.lossCut(r, q, d, e); loss >= cut {
			cut, v.Action, v.Why = loss, ActionLossCut, WhyLoss
		}
	}
	if cut == 0 || !judge {
		return cut, v
	}
	q = r.judged(m, s.Samples, d+common) - common
	if q > 4*d {
		cut = max(cut, p.delayCut(rowFarAbove, q, d, r.DTxNs, r.PeriodNs))
	} else if q > d {
		cut = max(cut, p.delayCut(rowAboveTarget, q, d, r.DTxNs, r.PeriodNs))
	}
	return cut, v
}
