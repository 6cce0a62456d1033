// SPDX-License-Identifier: Apache-2.0

package fourcase

import (
	"testing"
	"time"
)

// At 1 Gbit/s D is 500 us and e a quarter of it.
const (
	testD = int64(500 * us)
	testE = testD / 4
)

// queued is a sample with an excess over a round trip of 1 ms.
func queued(qTx, qRx int64) Sample { return Sample{Tx: qTx, Rx: int64(ms) + qRx, Samples: 10} }

func TestLevels(t *testing.T) {
	p := DefaultParams(10 * gbit)
	for _, c := range []struct {
		bps   uint64
		d, e  int64
		scale uint64
	}{
		{gbit, testD, testE, 1024},
		{250 * mbit, 2 * testD, 2 * testE, 2048},            // a quarter of the rate, twice the target
		{4 * gbit, 250_000, int64(100 * us), 512},           // e stops at the deadband
		{100 * gbit, int64(200 * us), int64(100 * us), 102}, // D stops at twice that
		{mbit, int64(5 * ms), 3_952_758, 32381},             // D stops at its maximum, e goes on
		{1, int64(5 * ms), 4_375_000, 65535},
		{maxRateLimit, int64(200 * us), int64(100 * us), 15},
	} {
		d, e, scale := p.levels(c.bps)
		if d != c.d || e != c.e || scale != c.scale {
			t.Errorf("levels(%d) = %d, %d, %d; want %d, %d, %d", c.bps, d, e, scale, c.d, c.e, c.scale)
		}
	}
}

// TestSteepLevels: with TargetSteepQ10 fast flows aim at less, which grows as 1/rate^2 up
// to what slower ones aim at anyway. e is as without.
func TestSteepLevels(t *testing.T) {
	p := ParamsFor(100*gbit, 8000, false)
	plain := p
	plain.TargetSteepQ10 = 0
	for bps, want := range map[uint64]int64{
		100 * gbit: 2000, 70 * gbit: 2000, // two deadbands
		50 * gbit: 3000, 40 * gbit: 4687, // 3/16 of 4 us by (100/50)^2 and (100/40)^2
		25 * gbit: 8000, 12_500_000_000: 11312, 6250 * mbit: 16000, gbit: 16000, // by the root
	} {
		d, e, _ := p.levels(bps)
		full, same, _ := plain.levels(bps)
		if d != want || d > full || e != min(same, d-d>>3) {
			t.Errorf("levels(%d) = %d, %d; want %d, %d; without %d", bps, d, e, want, same, full)
		}
	}
}

// TestRows: each row of the completed table, through Step, from (q, q') of the
// decision before to those of this one.
func TestRows(t *testing.T) {
	d, e := testD, testE
	for _, c := range []struct {
		name           string
		tx0, rx0       int64
		tx, rx         int64
		edit           func(*Sample)
		row, caseNo    uint8
		action         Action
		cutQ10, rateUp uint64 // expected change of the rate, /1024
		half           bool   // half of rateUp is expected
	}{
		{name: "0 loss above D", tx: d + 1, edit: func(s *Sample) { s.Loss = 1 }, row: 0, action: ActionLossCut, cutQ10: 256},
		{name: "0 loss half way from e to D", tx: (d + e) / 2, edit: func(s *Sample) { s.Loss = 1 }, row: 0, action: ActionLossCut, cutQ10: 128},
		{name: "0 loss, above 4D", tx: 100 * d, edit: func(s *Sample) { s.Loss = 1 }, row: 0, action: ActionLossCut, cutQ10: 512},
		{name: "0 half of what was sent is lost without delay", tx: 0, edit: func(s *Sample) { s.Loss, s.Sent = 40, 81 }, row: 0, action: ActionLossCut, cutQ10: 15},
		{name: "6 one packet in eighty is lost without delay", tx: 0, edit: func(s *Sample) { s.Loss, s.Sent = 1, 81 }, row: 6, caseNo: 4, action: ActionRaise, rateUp: 3},
		{name: "0 every echo reports CE", tx: 0, edit: func(s *Sample) { s.CE = 10 }, row: 0, action: ActionCECut, cutQ10: 256},
		{name: "0 one echo in ten reports CE", tx: 0, edit: func(s *Sample) { s.CE = 1 }, row: 0, action: ActionCECut, cutQ10: 25},
		{name: "0 draining, but CE", tx0: 3 * d, tx: 2 * d, edit: func(s *Sample) { s.CE = 10 }, row: 0, action: ActionCECut, cutQ10: 256},
		{name: "1 far above, draining", tx0: 9 * d, tx: 8 * d, row: 1, action: ActionCut, cutQ10: 268},
		{name: "2 receiver slower", tx0: d, rx0: d, tx: 2 * d, rx: 3 * d, row: 2, caseNo: 1, action: ActionBigCut, cutQ10: 115},
		{name: "2 turnaround known and long", tx0: d, rx0: d, tx: 2 * d, rx: 3 * d, edit: func(s *Sample) { s.Turn = 3 * d },
			row: 2, caseNo: 1, action: ActionBigCut, cutQ10: 115},
		{name: "5 turnaround known and short: it is the reverse path", tx0: d, rx0: d, tx: 2 * d, rx: 3 * d,
			edit: func(s *Sample) { s.Turn = 1000 }, row: 5, caseNo: 2, action: ActionCut, cutQ10: 77},
		{name: "3 receive shrinks", tx0: d, rx0: 2 * d, tx: 2 * d, rx: d, row: 3, caseNo: 3, action: ActionHold},
		{name: "4 draining", tx0: 3 * d, tx: 2 * d, row: 4, caseNo: 4, action: ActionHold},
		{name: "5 both grow, receive less", tx0: d, rx0: 0, tx: 3 * d, rx: d, row: 5, caseNo: 2, action: ActionCut, cutQ10: 120},
		{name: "5 pure forward congestion", tx0: d, tx: 3 * d, row: 5, caseNo: 2, action: ActionCut, cutQ10: 120},
		{name: "5 standing queue", tx0: 2 * d, tx: 2 * d, row: 5, caseNo: 2, action: ActionCut, cutQ10: 77},
		{name: "5 just above D", tx0: d, tx: d + 1, row: 5, caseNo: 2, action: ActionCut, cutQ10: 1},
		{name: "6 at the base delay", tx: 0, row: 6, caseNo: 4, action: ActionRaise, rateUp: 3},
		{name: "6 half way to e", tx: e / 2, row: 6, caseNo: 4, action: ActionRaise, rateUp: 3, half: true},
		{name: "6 reverse path congested", tx: 0, rx: 50 * d, row: 6, caseNo: 4, action: ActionRaise, rateUp: 3},
		{name: "6 at the base delay, sender idle", tx: 0, edit: func(s *Sample) { s.AppLimited = true }, row: 6, caseNo: 4, action: ActionHold},
		{name: "7 just above e", tx: e + 1, row: 7, action: ActionHold},
		{name: "7 at D", tx0: 0, tx: d, row: 7, action: ActionHold},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := DefaultParams(10 * gbit)
			r := Regs{RateBps: gbit}
			idle := queued(0, 0)
			idle.Idle, idle.Sent = true, 1
			run(&r, &p, idle, queued(c.tx0, c.rx0))
			// Only the step under test counts.
			r.RateBps, r.DecreasedNs, r.Increases = gbit, 0, 0
			s := queued(c.tx, c.rx)
			if c.edit != nil {
				c.edit(&s)
			}
			r.DecidedNs += uint64(sec) // no cut is recent
			got := run(&r, &p, s)
			want := gbit - gbit*c.cutQ10>>10
			if c.rateUp > 0 {
				want = gbit + gbit*c.rateUp>>10
			}
			if c.half {
				want = gbit + (gbit*c.rateUp>>10)>>10*512
			}
			if got.Row != c.row || got.Case != c.caseNo || got.Action != c.action || got.RateBps != want {
				t.Errorf("row %d, case %d, %v to %d (%s); want row %d, case %d, %v to %d",
					got.Row, got.Case, got.Action, got.RateBps, got.Reason(), c.row, c.caseNo, c.action, want)
			}
			if r.Row != got.Row || r.CaseNo != got.Case || r.Action != got.Action || r.RateBps != got.RateBps {
				t.Errorf("the registers do not show the decision: %+v", r)
			}
		})
	}
}

// TestEveryCombinationHitsOneRow walks all signs of the trends and all levels of
// the excesses. The conditions are written out here once more, each with what
// excludes the rows before it, so that none may overlap and none may be missing.
func TestEveryCombinationHitsOneRow(t *testing.T) {
	d, e := testD, testE
	levels := []int64{-d, 0, e, e + 1, d, d + 1, 2 * d, 4 * d, 4*d + 1, 9 * d}
	signs := []int64{-d, -e - 1, -e, 0, e, e + 1, d}
	seen := map[uint8]int{}
	for _, qTx := range levels {
		for _, qRx := range levels {
			for _, dTx := range signs {
				for _, dRx := range signs {
					for _, turn := range []int64{0, qRx / 4, qRx} {
						above := qTx > d && qTx <= 4*d
						receiver := dTx > e && dRx > e && qRx > qTx && (turn <= 0 || turn >= qRx/2)
						improving := dTx > e && dRx < -e
						draining := dTx < -e
						conditions := map[uint8]bool{
							1: qTx > 4*d,
							2: above && receiver,
							3: above && improving,
							4: above && draining,
							5: above && !receiver && !improving && !draining,
							6: qTx <= e,
							7: qTx > e && qTx <= d,
						}
						var rows []uint8
						for row, holds := range conditions {
							if holds {
								rows = append(rows, row)
							}
						}
						got := delayRow(qTx, qRx, dTx, dRx, turn, d, e)
						if len(rows) != 1 || rows[0] != got {
							t.Fatalf("q %d/%d d %d/%d turn %d: rows %v hold, delayRow says %d", qTx, qRx, dTx, dRx, turn, rows, got)
						}
						seen[got]++
					}
				}
			}
		}
	}
	for row := uint8(1); row <= 7; row++ {
		if seen[row] == 0 {
			t.Errorf("no combination hits row %d", row)
		}
	}
}

func TestLossCutsOncePerRoundTrip(t *testing.T) {
	p := DefaultParams(gbit)
	r := Regs{RateBps: gbit}
	at := uint64(sec)
	Step(&r, &p, Sample{Tx: 0, Rx: 0, RTT: int64(30 * ms), Samples: 1, Idle: true, Sent: 1}, at)
	var cuts int
	for i := range uint64(9) { // 90 ms of loss, a round trip of 30 ms
		if Step(&r, &p, Sample{Loss: 3, Sent: 1 + 3*(i+1)}, at+(i+1)*uint64(10*ms)).Action == ActionLossCut {
			cuts++
		}
	}
	if cuts != 3 {
		t.Errorf("%d cuts in 90 ms of loss, want one per 30 ms", cuts)
	}
	// Loss that a cut has answered still forbids a raise.
	d := Step(&r, &p, Sample{Tx: 0, Rx: 0, RTT: int64(30 * ms), Samples: 5, Loss: 1, Sent: 40}, at+uint64(95*ms))
	if d.Action != ActionHold || d.Why != WhyLossRecent {
		t.Errorf("loss at the base delay just after a cut: %v (%s), want hold", d.Action, d.Reason())
	}
}

func TestOneDecisionPerInterval(t *testing.T) {
	p := DefaultParams(gbit)
	r := Regs{RateBps: 500 * mbit}
	Step(&r, &p, queued(0, 0), 1e9)
	first := Step(&r, &p, queued(0, 0), 2e9)
	soon := Step(&r, &p, queued(0, 0), 2e9+p.IntervalNs-1)
	next := Step(&r, &p, queued(0, 0), 2e9+p.IntervalNs)
	if first.Action != ActionRaise || soon.Action != ActionNone || soon.Why != WhyInterval || next.Action != ActionRaise {
		t.Errorf("got %v, %v (%s), %v", first.Action, soon.Action, soon.Reason(), next.Action)
	}
}

func TestRaisesAccelerateAndStartOver(t *testing.T) {
	p := DefaultParams(10 * gbit)
	r := Regs{RateBps: gbit}
	run(&r, &p, queued(0, 0))
	for range p.RaiseAfter {
		run(&r, &p, queued(0, 0))
	}
	r.RateBps = gbit
	if d := run(&r, &p, queued(0, 0)); d.RateBps != gbit+gbit*6>>10 {
		t.Errorf("raise %d after %d raises, want twice the plain one", d.RateBps-gbit, p.RaiseAfter)
	}
	run(&r, &p, queued(testE+testE/2, 0)) // row 7: hold
	r.RateBps = gbit
	if d := run(&r, &p, queued(0, 0)); d.RateBps != gbit+gbit*3>>10 {
		t.Errorf("raise %d after a hold, want the plain one", d.RateBps-gbit)
	}
	r.RateBps, r.Increases = gbit, 1<<31
	if d := run(&r, &p, queued(0, 0)); d.RateBps != gbit+gbit/16 {
		t.Errorf("raise %d after very many raises, want a sixteenth", d.RateBps-gbit)
	}
	r.RateBps, r.Increases, r.PeriodNs = gbit, 1<<31, uint64(200*us)
	r.DecidedNs -= uint64(10*ms) - p.IntervalNs
	if d := run(&r, &p, queued(0, 0)); d.RateBps <= gbit+gbit/32 || d.RateBps > gbit+gbit/4 {
		t.Errorf("raise %d where decisions are close together, want at most max_raise_q10", d.RateBps-gbit)
	}
}

// TestRecover: after a cut the rate comes back faster than it explores.
func TestRecover(t *testing.T) {
	p := DefaultParams(10 * gbit)
	r := Regs{RateBps: gbit}
	run(&r, &p, queued(0, 0), queued(0, 0))
	r.RateBps = gbit
	cut := run(&r, &p, queued(4*testD, 0))
	if r.RateBeforeDecreaseBps != gbit || cut.RateBps >= gbit {
		t.Fatalf("cut to %d, from %d", cut.RateBps, r.RateBeforeDecreaseBps)
	}
	first := run(&r, &p, queued(0, 0), queued(0, 0))
	if want := (gbit - cut.RateBps) / 16; first.RateBps-cut.RateBps < want {
		t.Errorf("raise %d after the cut, want at least a sixteenth of the difference, %d", first.RateBps-cut.RateBps, want)
	}
	for i := 0; r.RateBeforeDecreaseBps != 0; i++ {
		if run(&r, &p, queued(0, 0)); i > 60 {
			t.Fatalf("rate %d after %d raises, not back at %d", r.RateBps, i, gbit)
		}
	}
}

// TestCutIsWhatDrains: where decisions are far apart a small excess costs little,
// and one that drains as it is costs nothing.
func TestCutIsWhatDrains(t *testing.T) {
	p := DefaultParams(10 * gbit)
	d := testD
	for _, c := range []struct {
		q, grown int64
		period   time.Duration
		want     uint64
	}{
		{8 * d, 8 * d, 0, 268},              // no period known: twice beta*(q-D)/q
		{8 * d, 8 * d, 10 * ms, 292},        // it grows by 4 ms in 10: 4/(10+4) of what comes is too much
		{8 * d, 8 * d, 200 * ms, 48},        // 7.5 ms * 5/4 of 200 ms
		{8 * d, 0, 200 * ms, 22},            // it stands: 3.5 ms * 5/4
		{8 * d, -4 * d, 200 * ms, 9},        // it drains, not fast enough: 1.5 ms * 5/4
		{8 * d, -8 * d, 200 * ms, 1},        // the next decision will find it gone
		{8 * d, 1 << 50, 10 * ms, 512},      // absurd growth does not overflow
		{1 << 60, 1 << 60, ms / 1000, 512},  // nor an absurd queue
		{1 << 60, -(1 << 60), ms / 1000, 1}, // nor an absurd fall
	} {
		if got := p.delayCut(rowFarAbove, c.q, d, c.grown, uint64(c.period)); got != c.want {
			t.Errorf("queue %d, grown by %d, decisions every %v: cut %d/1024, want %d", c.q, c.grown, c.period, got, c.want)
		}
	}
}

// TestRatesBelowTheFloor: a queue that stands for long at min_rate_bps.
func TestRatesBelowTheFloor(t *testing.T) {
	p := DefaultParams(10 * gbit)
	r := Regs{RateBps: p.MinRateBps}
	run(&r, &p, queued(0, 0))
	for range floorPatience - 1 {
		if d := run(&r, &p, queued(100*testD, 0)); d.RateBps != p.MinRateBps || d.Why != WhyAtMin {
			t.Fatalf("%d, %s: too soon", d.RateBps, d.Reason())
		}
	}
	for range 200 {
		run(&r, &p, queued(100*testD, 0))
	}
	if least := p.MinRateBps >> floorShift; r.RateBps != least {
		t.Errorf("rate %d below the floor, want %d", r.RateBps, least)
	}
	for range 200 {
		run(&r, &p, queued(0, 0))
	}
	run(&r, &p, queued(100*testD, 0))
	if r.RateBps < p.MinRateBps || r.FloorPatience != 0 {
		t.Errorf("rate %d, %d: the floor does not hold again", r.RateBps, r.FloorPatience)
	}
}

// TestFewSamplesAreConfirmed: one late echo is no queue.
func TestFewSamplesAreConfirmed(t *testing.T) {
	p := DefaultParams(gbit)
	r := Regs{RateBps: gbit}
	onTime := Sample{Rx: 1, Samples: 1, RTT: 1}
	late := Sample{Tx: 3 * testD, Rx: 1, Samples: 1, RTT: 3*testD + 1}
	run(&r, &p, onTime, onTime)
	if d := run(&r, &p, late); d.Action != ActionHold {
		t.Errorf("one late echo: %v, want hold", d.Action)
	}
	if d := run(&r, &p, late); d.Action != ActionCut {
		t.Errorf("the second late echo in a row: %v, want cut", d.Action)
	}
}

func TestWindowBytes(t *testing.T) {
	p := ParamsFor(100*gbit, 8000, true)
	r := Regs{RateBps: 100 * gbit}
	// 8 us and one and a half times a D of 2 us, at 12.5 bytes a nanosecond
	if got := WindowBytes(&r, &p, 8000); got != 137_500 {
		t.Errorf("window %d, want 137500", got)
	}
	r.QueueingRxNs = 20_000 // the reverse path is congested: the data in flight is not
	if got := WindowBytes(&r, &p, 8000); got != 387_500 {
		t.Errorf("window %d with 20 us on the reverse path, want 387500", got)
	}
	r = Regs{RateBps: maxRateLimit, QueueingRxNs: 1 << 62}
	p = ParamsFor(maxRateLimit, 1<<62, true)
	if a, b := WindowBytes(&r, &p, 1<<62), WindowBytes(&Regs{}, &p, 0); a < maxRateLimit>>3 || b != 1 {
		t.Errorf("windows at the ends of the range: %d and %d", a, b)
	}
}

// TestRestartIdle: an idle destination forgets an old cut, and only that.
func TestRestartIdle(t *testing.T) {
	p := DefaultParams(gbit)
	p.InitialRateBps = 250 * mbit
	var r Regs
	if RestartIdle(&r, &p, 1); r.RateBps != 250*mbit {
		t.Fatalf("a new destination starts at %d, want its share", r.RateBps)
	}
	run(&r, &p, queued(0, 0), queued(0, 0), queued(8*testD, 0))
	r.RateBps = 10 * mbit
	before := r
	if RestartIdle(&r, &p, r.DecidedNs+uint64(100*ms)); r != before {
		t.Error("100 ms without a decision are no idle time")
	}
	if RestartIdle(&r, &p, r.DecidedNs+uint64(60*sec)); r.RateBps != 250*mbit || r.BaseTxNs != before.BaseTxNs || r.RateBeforeDecreaseBps != 0 {
		t.Errorf("after a minute: %+v", r)
	}
	r.RateBps = 900 * mbit
	if RestartIdle(&r, &p, r.DecidedNs+uint64(60*sec)); r.RateBps != 900*mbit {
		t.Errorf("rate %d: waking must not cut", r.RateBps)
	}
}
