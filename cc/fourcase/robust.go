// SPDX-License-Identifier: Apache-2.0

package fourcase

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
// of a trend, is what makes rates meet. e is a quarter of D, so that the delay of
// a few packets does not count as a queue where packets take long.
func (p *Params) levels(bps uint64) (d, e int64, scale uint64) {
	ratio := min(p.TargetRateBps<<20/bps, 1<<32-1)
	scale = max(uint64(isqrt32(uint32(ratio))), 1)
	target := min(p.TargetNs*scale>>10, p.TargetMaxNs)
	target = max(target, 2*p.DeadbandNs)
	return int64(target), int64(max(p.DeadbandNs, target>>2)), scale
}

// isqrt32 is the integer square root, by shifts, adds and compares.
func isqrt32(v uint32) uint32 {
	var root uint32
	for bit := uint32(1 << 30); bit != 0; bit >>= 2 {
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
// where being quick matters more than not to undershoot.
func (p *Params) delayCut(row uint8, q, d int64) uint64 {
	q = min(q, qLimit)
	cut := uint64(p.BetaQ10) * uint64(max(q-d, 0)) / uint64(q)
	switch row {
	case rowFarAbove:
		cut <<= 1
	case rowReceiver:
		cut += cut >> 1
	}
	return min(max(cut, 1), uint64(p.MaxCutQ10))
}

// lossCut is the cut for loss and CE in 1/1024, by their own law: a fixed part
// for loss, a part that follows the share of marked echoes for CE.
func (p *Params) lossCut(s *Sample) (uint64, Action, Why) {
	if s.Loss > 0 {
		return uint64(p.LossCutQ10), ActionLossCut, WhyLoss
	}
	echoes := max(s.Samples, s.CE)
	return max(uint64(p.CECutQ10)*uint64(s.CE)/uint64(echoes), 1), ActionCECut, WhyCE
}

// raiseBy is the raise in bits per second. Like D it grows, relative to the
// rate, as 1/sqrt(rate), so that slow flows catch up. It accelerates, once raises
// go on, until the next hold or cut, and tapers off as the excess nears e, so
// that it ends in a small overshoot: room is what is left of e.
func (p *Params) raiseBy(bps uint64, raises uint32, scale uint64, e, room int64) uint64 {
	q10 := uint64(p.RaiseQ10) * scale >> 10
	if raises >= p.RaiseAfter {
		q10 *= uint64(min(raises-p.RaiseAfter, 1022)) + 2
	}
	q10 = min(max(q10, 1), uint64(p.MaxRaiseQ10))
	if room < e {
		q10 = q10 * uint64(room) / uint64(e)
	}
	return part(bps, q10)
}

// fewSamples is how many echoes a window needs for its minimum to be free of the
// hosts' scheduling jitter.
const fewSamples = 3

// judged notes the times and returns the excess that the row is found by. Where
// a window has few samples, an excess over D counts only as far as the decision
// before saw it too.
func (r *Regs) judged(m times, samples uint32, d int64) int64 {
	last, confirm := r.QTxNs, r.State&StateTrend != 0 && samples < fewSamples
	r.see(m)
	if confirm {
		return min(r.QTxNs, max(last, d))
	}
	return r.QTxNs
}

// robust is one step by the completed table. The stages:
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
	first := feedback && !r.track(p, m, now)
	judge := feedback && !first && !s.Idle

	if p.Mode == ModeFixed {
		if judge && now-r.DecidedNs >= p.IntervalNs {
			r.see(m)
			return r.decide(p, Verdict{Action: ActionHold, Row: NoRow, Why: WhyFixed}, 0, now)
		}
		return r.none(WhyFixed)
	}

	signal := s.Loss > 0 || s.CE > 0
	if signal && now-r.CutNs >= max(p.IntervalNs, r.roundTrip()) {
		cut, action, why := p.lossCut(s)
		if judge {
			d, _, _ := p.levels(r.RateBps)
			if q := r.judged(m, s.Samples, d); q > 4*d {
				cut = max(cut, p.delayCut(rowFarAbove, q, d))
			} else if q > d {
				cut = max(cut, p.delayCut(rowAboveTarget, q, d))
			}
		}
		return r.decide(p, Verdict{Action: action, Row: rowLoss, Why: why}, part(r.RateBps, cut), now)
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

	d, e, scale := p.levels(r.RateBps)
	q := r.judged(m, s.Samples, d)
	row := delayRow(q, r.QRxNs, r.DTxNs, r.DRxNs, s.Turn, d, e)
	out := verdicts[row]
	var amount uint64
	switch {
	case out.Action.Cuts():
		amount = part(r.RateBps, p.delayCut(row, q, d))
	case out.Action == ActionRaise && signal:
		out.Action, out.Why = ActionHold, WhyLossRecent
	case out.Action == ActionRaise && s.AppLimited:
		out.Action, out.Why = ActionHold, WhyAppLimited
	case out.Action == ActionRaise:
		amount = p.raiseBy(r.RateBps, r.Raises, scale, e, e-q)
	}
	return r.decide(p, out, amount, now)
}
