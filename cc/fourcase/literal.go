// SPDX-License-Identifier: Apache-2.0

package fourcase

// literal is one step by the words of S1.6: the changes of the two times since the last
// evaluation, their plain comparison, and their first values. Loss, CE, clock offset and
// drift do not occur in that text.
func (r *Regs) literal(p *Params, s *Sample, now uint64) Decision {
	m, feedback := s.times()
	if !feedback {
		return r.none(WhyNoFeedback)
	}
	if r.State&StateBase == 0 || r.State&StateRTT != 0 != m.rttOnly {
		r.State = 0
		r.track(p, m, now)
		r.State |= StateTrend // the original values are the first to compare with
		return r.none(WhyFirstSample)
	}
	switch {
	case s.Idle:
		return r.none(WhyIdleSample)
	case now-r.DecidedNs < p.IntervalNs:
		return r.none(WhyInterval)
	}

	r.updateQueueingDelay(m)
	out, q10 := literalCase(p, m.tx-m.rx, r.QueueingTxNs, r.QueueingRxNs, r.TrendTxNs, r.TrendRxNs)
	if out.Action == ActionRaise && s.AppLimited {
		out.Action, out.Why = ActionHold, WhyAppLimited
	}
	return r.decide(p, out, part(r.RateBps, uint64(q10)), now)
}

// literalCase finds the case. lead is transmit time - receive time, q the time above the
// original value and d the change since the last evaluation, all in nanoseconds. Times at
// their original values are a reason to increase whether they changed or not.
func literalCase(p *Params, lead, qTx, qRx, dTx, dRx int64) (v Verdict, q10 uint32) {
	band := int64(p.LiteralDeadbandNs)
	txGrew, rxGrew := dTx > band, dRx > band
	txShrank, rxShrank := dTx < -band, dRx < -band
	v = Verdict{Action: ActionHold, Row: NoRow, Why: WhyLiteralNone}
	switch {
	case txGrew && rxGrew && lead < 0:
		v.Action, v.Case, v.Why = ActionBigCut, 1, WhyLiteral1
		return v, p.BigCutQ10
	case txGrew && rxGrew && lead > 0:
		v.Action, v.Case, v.Why = ActionCut, 2, WhyLiteral2
		return v, p.SmallCutQ10
	case qTx <= band && qRx <= band:
		v.Action, v.Case, v.Why = ActionRaise, 4, WhyLiteralBack
		return v, p.RaiseQ10
	case txGrew && rxShrank && qTx > 0 && qRx > 0:
		v.Case, v.Why = 3, WhyLiteral3
	case txShrank && rxShrank && qTx > 0 && qRx > 0:
		v.Case, v.Why = 4, WhyLiteral4
	}
	return v, 0
}
