// SPDX-License-Identifier: Apache-2.0

package fourcase

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// anyParams draws parameters that Validate accepts.
func anyParams(t *rapid.T) Params {
	link := rapid.Uint64Range(1000, maxRateLimit).Draw(t, "link")
	p := DefaultParams(link)
	p.Mode = rapid.SampledFrom([]Mode{ModeRobust, ModeLiteral, ModeFixed}).Draw(t, "mode")
	p.MinRateBps = rapid.Uint64Range(1, link).Draw(t, "min")
	p.InitialRateBps = rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(p.MinRateBps, link)).Draw(t, "initial")
	p.TargetRateBps = rapid.Uint64Range(1, maxRateLimit).Draw(t, "target rate")
	p.TargetNs = rapid.Uint64Range(1, maxTimeLimit).Draw(t, "target")
	p.TargetMaxNs = rapid.Uint64Range(p.TargetNs, maxTimeLimit).Draw(t, "target max")
	p.DeadbandNs = rapid.Uint64Range(0, p.TargetNs/2).Draw(t, "deadband")
	p.LiteralDeadbandNs = rapid.Uint64Range(0, maxTimeLimit).Draw(t, "literal deadband")
	q10 := rapid.Uint32Range(1, one)
	p.BetaQ10, p.MaxCutQ10 = q10.Draw(t, "beta"), q10.Draw(t, "max cut")
	p.RaiseQ10 = q10.Draw(t, "raise")
	p.TargetSteepQ10 = rapid.OneOf(rapid.Just(uint32(0)), rapid.Uint32Range(leastSteep, one)).Draw(t, "steep")
	p.MaxRaiseQ10 = rapid.Uint32Range(p.RaiseQ10, one).Draw(t, "max raise")
	p.RaiseAfter = rapid.Uint32().Draw(t, "raise after")
	p.LossCutQ10, p.CECutQ10 = q10.Draw(t, "loss cut"), q10.Draw(t, "ce cut")
	if err := p.Validate(); err != nil {
		t.Fatalf("drew parameters that do not validate: %v", err)
	}
	return p
}

// wild draws times of any size, as broken peers or clocks may send.
func wild(t *rapid.T) Sample {
	return Sample{
		Tx: rapid.Int64().Draw(t, "tx"), Rx: rapid.Int64().Draw(t, "rx"),
		RTT: rapid.Int64().Draw(t, "rtt"), Turn: rapid.Int64().Draw(t, "turn"),
		Samples:    rapid.SampledFrom([]uint32{0, 1, 5, math.MaxUint32}).Draw(t, "samples"),
		CE:         rapid.SampledFrom([]uint32{0, 0, 1, math.MaxUint32}).Draw(t, "ce"),
		Loss:       rapid.SampledFrom([]uint32{0, 0, 1, math.MaxUint32}).Draw(t, "loss"),
		AppLimited: rapid.Bool().Draw(t, "app limited"), Idle: rapid.Bool().Draw(t, "idle"),
		OpenLoop: rapid.Bool().Draw(t, "open loop"), Sent: rapid.Uint64().Draw(t, "sent"),
		ShareBps: rapid.SampledFrom([]uint64{0, 1000, 1_000_000, math.MaxUint64}).Draw(t, "share"),
	}
}

// sane draws what a network with queues up to 20 ms gives.
func sane(t *rapid.T) Sample {
	tx := rapid.Int64Range(500_000, 20_000_000).Draw(t, "tx")
	rx := rapid.Int64Range(500_000, 20_000_000).Draw(t, "rx")
	s := Sample{Tx: tx, Rx: rx, Samples: rapid.Uint32Range(0, 9).Draw(t, "samples")}
	if rapid.Bool().Draw(t, "with rtt") {
		s.RTT = tx + rx + rapid.Int64Range(0, 1_000_000).Draw(t, "more")
	}
	s.Turn = rapid.Int64Range(0, rx).Draw(t, "turn")
	s.CE = rapid.SampledFrom([]uint32{0, 0, 0, 1}).Draw(t, "ce")
	s.Loss = rapid.SampledFrom([]uint32{0, 0, 0, 1}).Draw(t, "loss")
	s.AppLimited = rapid.Bool().Draw(t, "app limited")
	return s
}

// TestPropertyAnyInput: whatever comes in, the rate stays in its limits, a window
// without feedback that was due, of an idle sender, of one that is application limited
// beyond its share, or with loss or CE never raises, loss and CE are told apart from hold, and the registers agree
// with the decision.
func TestPropertyAnyInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyParams(t)
		var r Regs
		now := rapid.Uint64().Draw(t, "start")
		steps := rapid.IntRange(1, 60).Draw(t, "steps")
		tame := rapid.Bool().Draw(t, "tame")
		for i := range steps {
			s := wild
			if tame {
				s = sane
			}
			sample := s(t)
			before := r
			d := Step(&r, &p, sample, now)
			now += rapid.Uint64Range(0, uint64(sec)).Draw(t, "pause")

			if r.RateBps < max(p.MinRateBps>>floorShift, 1) || r.RateBps > p.MaxRateBps || d.RateBps != r.RateBps {
				t.Fatalf("step %d: rate %d, registers %d, limits %d to %d", i, d.RateBps, r.RateBps, p.MinRateBps, p.MaxRateBps)
			}
			first := before.RateBps == 0
			raised := !first && r.RateBps > before.RateBps
			lowered := !first && r.RateBps < before.RateBps
			if raised != (d.Action == ActionRaise) && !first {
				t.Fatalf("step %d: %d to %d is called %v", i, before.RateBps, r.RateBps, d.Action)
			}
			if lowered != d.Action.Cuts() && !first {
				t.Fatalf("step %d: %d to %d is called %v", i, before.RateBps, r.RateBps, d.Action)
			}
			unproven := sample.AppLimited && r.RateBps > sample.ShareBps
			if raised && (sample.Samples == 0 && sample.RTT <= 0 && !sample.OpenLoop || unproven || sample.Idle && !sample.OpenLoop) {
				t.Fatalf("step %d raised on %+v", i, sample)
			}
			if raised && p.Mode == ModeRobust && (sample.Loss > 0 && r.LossQ20 >= lossHeavy || sample.CE > 0) {
				t.Fatalf("step %d raised despite loss or CE: %+v", i, sample)
			}
			if p.Mode == ModeFixed && !first && r.RateBps != before.RateBps {
				t.Fatalf("step %d: fixed rate changed", i)
			}
			decided := r.Decisions != before.Decisions
			if decided != (d.Action != ActionNone) {
				t.Fatalf("step %d: %v, decisions %d to %d", i, d.Action, before.Decisions, r.Decisions)
			}
			if decided && (r.Action != d.Action || r.Row != d.Row || r.CaseNo != d.Case) {
				t.Fatalf("step %d: registers %v/%d/%d, decision %+v", i, r.Action, r.Row, r.CaseNo, d)
			}
			if d.Reason() == "unknown" || d.Case > 4 || (d.Row > rowOpenLoop && d.Row != NoRow) {
				t.Fatalf("step %d: %+v", i, d)
			}
		}
	})
}

// TestPropertyClockOffset: any constant offset o, added to tx and taken from rx,
// changes no decision and no register but the base delays, by o.
func TestPropertyClockOffset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyParams(t)
		p.Mode = ModeRobust
		offset := rapid.Int64().Draw(t, "offset")
		var plain, shifted Regs
		now := uint64(sec)
		for i := range rapid.IntRange(1, 100).Draw(t, "steps") {
			s := sane(t)
			s.Idle = i == 0
			moved := s
			moved.Tx += offset
			moved.Rx -= offset
			a, b := Step(&plain, &p, s, now), Step(&shifted, &p, moved, now)
			if a != b {
				t.Fatalf("step %d: %+v (%s) without offset, %+v (%s) with", i, a, a.Reason(), b, b.Reason())
			}
			back := shifted
			if back.State&StateRTT == 0 && back.State&StateBase != 0 {
				back.BaseTxNs -= offset
				back.BaseRxNs += offset
				back.NextBaseTxNs -= offset
				back.NextBaseRxNs += offset
			}
			if back != plain {
				t.Fatalf("step %d: registers %+v without offset, %+v with", i, plain, shifted)
			}
			now += rapid.Uint64Range(0, uint64(sec)).Draw(t, "pause")
		}
	})
}

// TestPropertyMonotone: a longer queue never leaves a higher rate, a lower rate
// never has a lower target.
func TestPropertyMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultParams(10 * gbit)
		rate := rapid.Uint64Range(p.MinRateBps, p.MaxRateBps).Draw(t, "rate")
		q := rapid.Int64Range(0, int64(40*ms)).Draw(t, "q")
		more := q + rapid.Int64Range(0, int64(40*ms)).Draw(t, "more")
		after := func(q int64) uint64 {
			r := Regs{RateBps: rate}
			idle := queued(0, 0)
			idle.Idle = true
			// The first decision has no trend, so no hold of rows 3 and 4.
			return run(&r, &p, idle, queued(q, 0)).RateBps
		}
		if low, high := after(more), after(q); low > high {
			t.Fatalf("rate %d: a queue of %d ns leaves %d, one of %d ns leaves %d", rate, q, high, more, low)
		}
		slower := rapid.Uint64Range(p.MinRateBps, rate).Draw(t, "slower")
		d1, e1, s1 := p.levels(rate)
		d2, e2, s2 := p.levels(slower)
		if d2 < d1 || e2 < e1 || s2 < s1 {
			t.Fatalf("levels(%d) = %d, %d, %d; levels(%d) = %d, %d, %d", rate, d1, e1, s1, slower, d2, e2, s2)
		}
		if e1 >= d1 {
			t.Fatalf("e %d not below D %d at %d", e1, d1, rate)
		}
	})
}

// TestPropertyBaselines: the two one-way base delays never add up to less than the
// round trip's while samples are those of a network.
func TestPropertyBaselines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultParams(gbit)
		var r Regs
		now := uint64(sec)
		for i := range rapid.IntRange(1, 100).Draw(t, "steps") {
			s := measured(rapid.Int64Range(1, 1e7).Draw(t, "tx"), rapid.Int64Range(1, 1e7).Draw(t, "rx"))
			clock := rapid.Int64Range(-1e9, 1e9).Draw(t, "clock")
			s.Tx += clock
			s.Rx -= clock
			Step(&r, &p, s, now)
			now += rapid.Uint64Range(0, uint64(3*sec)).Draw(t, "pause")
			if r.BaseTxNs+r.BaseRxNs < r.BaseRttNs {
				t.Fatalf("step %d: %d + %d < %d", i, r.BaseTxNs, r.BaseRxNs, r.BaseRttNs)
			}
			if r.BaseRttNs > s.RTT {
				t.Fatalf("step %d: base round trip %d above the sample's %d", i, r.BaseRttNs, s.RTT)
			}
		}
	})
}

func TestPropertySquareRoot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint32().Draw(t, "v")
		root := uint64(isqrt32(v))
		if root*root > uint64(v) || (root+1)*(root+1) <= uint64(v) {
			t.Fatalf("isqrt32(%d) = %d", v, root)
		}
	})
	if isqrt32(0) != 0 || isqrt32(math.MaxUint32) != 65535 {
		t.Error("ends of the range")
	}
}
