// SPDX-License-Identifier: Apache-2.0

package fourcase

import (
	"math"
	"testing"
)

// TestWorkedExample is S1.5: node 1 sends at 0, node 4 receives at 5, the
// feedback is back at 8.
func TestWorkedExample(t *testing.T) {
	const t1, t2, t3 = 0, 5, 8

	atNode4, _ := OneWay(t1, t2, t2) // the target knows T1 and T2 only (S1.3)
	if atNode4 != 5 {
		t.Errorf("node 4 stores transmit time %d for node 1, want 5", atNode4)
	}
	tx, rx := OneWay(t1, t2, t3)
	if tx != 5 || rx != 3 {
		t.Errorf("node 1 stores (%d, %d) for node 4, want (5, 3)", tx, rx)
	}
	for _, mode := range []Mode{ModeRobust, ModeLiteral, ModeFixed} {
		p := DefaultParams(gbit)
		p.Mode = mode
		var r Regs
		Step(&r, &p, Sample{Tx: tx, Rx: rx, Samples: 1}, 8)
		if r.BaseTxNs != 5 || r.BaseRxNs != 3 {
			t.Errorf("%v: original values (%d, %d), want (5, 3)", mode, r.BaseTxNs, r.BaseRxNs)
		}
	}
}

func TestOneWayWraps(t *testing.T) {
	tx, rx := OneWay(math.MaxUint64-1, 3, 7) // the clock wrapped between T1 and T2
	if tx != 5 || rx != 4 {
		t.Errorf("got (%d, %d), want (5, 4)", tx, rx)
	}
	tx, rx = OneWay(1000, 5, 1008) // the receiver's clock is behind
	if tx != -995 || rx != 1003 {
		t.Errorf("got (%d, %d), want (-995, 1003)", tx, rx)
	}
}

func TestEvenShare(t *testing.T) {
	for _, c := range []struct {
		link uint64
		n    int
		want uint64
	}{
		{10 * gbit, 4, 2500 * mbit}, {10 * gbit, 3, 3333333333}, {gbit, 1, gbit},
		{gbit, 0, gbit}, {gbit, -1, gbit}, {3, 10, 1},
	} {
		if got := EvenShare(c.link, c.n); got != c.want {
			t.Errorf("EvenShare(%d, %d) = %d, want %d", c.link, c.n, got, c.want)
		}
	}
}

// run makes steps 10 ms apart and returns the last decision.
func run(r *Regs, p *Params, samples ...Sample) (d Decision) {
	for _, s := range samples {
		d = Step(r, p, s, r.DecidedNs+uint64(10*ms))
		if d.Action == ActionNone { // keep the clock going
			r.DecidedNs += uint64(10 * ms)
		}
	}
	return d
}

func oneWay(tx, rx int64) Sample { return Sample{Tx: tx, Rx: rx, Samples: 10} }

// TestLiteralCases: the four cases of S1.6 and what is none of them. The
// original values are (500, 300).
func TestLiteralCases(t *testing.T) {
	original := oneWay(500, 300)
	for _, c := range []struct {
		name   string
		before Sample // the last evaluation
		now    Sample
		action Action
		caseNo uint8
	}{
		{"1: both grew, receive > transmit", oneWay(600, 700), oneWay(700, 800), ActionBigCut, 1},
		{"2: both grew, receive < transmit", oneWay(600, 400), oneWay(700, 500), ActionCut, 2},
		{"both grew, equal", oneWay(600, 600), oneWay(700, 700), ActionHold, 0},
		{"3: transmit grew, receive shrank, both above", oneWay(600, 500), oneWay(700, 400), ActionHold, 3},
		{"transmit grew, receive shrank to its original", oneWay(600, 500), oneWay(700, 300), ActionHold, 0},
		{"4: both shrank, both above", oneWay(800, 600), oneWay(700, 500), ActionHold, 4},
		{"4: both shrank back to their originals", oneWay(600, 400), oneWay(500, 300), ActionRaise, 4},
		{"4: both shrank, below their originals", oneWay(600, 400), oneWay(400, 200), ActionRaise, 4},
		{"both shrank, one is back", oneWay(600, 500), oneWay(500, 400), ActionHold, 0},
		{"transmit grew, receive unchanged: pure forward congestion", oneWay(600, 300), oneWay(900, 300), ActionHold, 0},
		{"transmit shrank, receive grew", oneWay(800, 400), oneWay(700, 600), ActionHold, 0},
		{"4: both at their originals, as before", oneWay(500, 300), oneWay(500, 300), ActionRaise, 4},
		{"4: one reached its original after the other", oneWay(600, 300), oneWay(500, 300), ActionRaise, 4},
		{"4: both below their originals, one grew", oneWay(400, 200), oneWay(450, 200), ActionRaise, 4},
		{"both grew up to their originals, receive < transmit", oneWay(400, 200), oneWay(500, 300), ActionCut, 2},
		{"nothing changed, above", oneWay(600, 400), oneWay(600, 400), ActionHold, 0},
	} {
		p := DefaultParams(gbit)
		p.Mode = ModeLiteral
		r := Regs{RateBps: 512 * mbit}
		run(&r, &p, original, c.before)
		r.RateBps = 512 * mbit
		d := run(&r, &p, c.now)
		want := map[Action]uint64{
			ActionHold: 512 * mbit, ActionBigCut: 256 * mbit, ActionCut: 448 * mbit, ActionRaise: 513_500_000,
		}[c.action]
		if d.Action != c.action || d.Case != c.caseNo || d.RateBps != want {
			t.Errorf("%s: %v to %d, case %d (%s); want %v to %d, case %d",
				c.name, d.Action, d.RateBps, d.Case, d.Reason(), c.action, want, c.caseNo)
		}
		if r.CaseNo != d.Case || r.Action != d.Action || r.Row != NoRow || r.RateBps != d.RateBps {
			t.Errorf("%s: the registers do not show the decision: %+v", c.name, r)
		}
	}
}

// TestLiteralKeepsOriginals: no window and no lower sample moves them.
func TestLiteralKeepsOriginals(t *testing.T) {
	p := DefaultParams(gbit)
	p.Mode = ModeLiteral
	var r Regs
	run(&r, &p, oneWay(500, 300))
	for range 5000 { // 50 s
		run(&r, &p, oneWay(400, 900))
	}
	if r.BaseTxNs != 500 || r.BaseRxNs != 300 {
		t.Errorf("original values moved to (%d, %d)", r.BaseTxNs, r.BaseRxNs)
	}
}

func TestFixedNeverChanges(t *testing.T) {
	p := DefaultParams(gbit)
	p.Mode, p.InitialRateBps = ModeFixed, EvenShare(gbit, 4)
	var r Regs
	for _, s := range []Sample{
		oneWay(0, 0), oneWay(9e6, 9e6), {Loss: 5}, {CE: 5, Samples: 5}, {}, oneWay(0, 0),
	} {
		if d := run(&r, &p, s); d.RateBps != 250*mbit {
			t.Errorf("after %+v: rate %d, want the fixed 250 Mbit/s", s, d.RateBps)
		}
	}
	if r.Decreases != 0 {
		t.Errorf("counted %d cuts", r.Decreases)
	}
}

func TestRateFollowsChangedLimits(t *testing.T) {
	for _, mode := range []Mode{ModeRobust, ModeLiteral, ModeFixed} {
		p := DefaultParams(gbit)
		p.Mode, p.MaxRateBps = mode, 300*mbit
		r := Regs{RateBps: 900 * mbit}
		if d := Step(&r, &p, Sample{}, 1); d.RateBps != 300*mbit || r.RateBps != 300*mbit {
			t.Errorf("%v: rate %d above the new maximum", mode, d.RateBps)
		}
	}
	// A rate that never changes is not below a new minimum for any reason.
	p := DefaultParams(gbit)
	p.Mode, p.MinRateBps = ModeFixed, 20*mbit
	r := Regs{RateBps: 10 * mbit}
	if d := Step(&r, &p, Sample{}, 1); d.RateBps != 20*mbit {
		t.Errorf("fixed: rate %d below the new minimum", d.RateBps)
	}
}

func TestReasonsAreNamed(t *testing.T) {
	for w := WhyFixed; w <= WhyLiteralNone; w++ {
		if whyText[w] == "" {
			t.Errorf("reason %d has no text", w)
		}
	}
	if Why(200).String() != "unknown" || Action(200).String() != "unknown" {
		t.Error("values out of range must not panic")
	}
	if got := (Verdict{Why: WhyDraining}).Reason(); got != "above target, but the queue drains" {
		t.Errorf("Reason() = %q", got)
	}
}

func BenchmarkStep(b *testing.B) {
	for _, mode := range []Mode{ModeRobust, ModeLiteral} {
		b.Run(mode.String(), func(b *testing.B) {
			p := DefaultParams(10 * gbit)
			p.Mode = mode
			r := Regs{RateBps: gbit}
			b.ReportAllocs()
			for i := range b.N {
				q := int64(i&7) * int64(200*us)
				Step(&r, &p, Sample{Tx: q, Rx: 1000, RTT: q + 1000, Samples: 5}, uint64(i)*uint64(10*ms))
			}
		})
	}
}

func TestStepDoesNotAllocate(t *testing.T) {
	p := DefaultParams(gbit)
	var r Regs
	now := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += uint64(10 * ms)
		Step(&r, &p, oneWay(int64(now%7)*100_000, 1000), now)
	}); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}
