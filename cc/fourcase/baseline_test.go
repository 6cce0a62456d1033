// SPDX-License-Identifier: Apache-2.0

package fourcase

import "testing"

func started(p *Params, tx, rx int64) *Regs {
	r := &Regs{RateBps: gbit}
	Step(r, p, Sample{Tx: tx, Rx: rx, RTT: tx + rx, Samples: 1, Idle: true}, 1)
	return r
}

func measured(tx, rx int64) Sample { return Sample{Tx: tx, Rx: rx, RTT: tx + rx, Samples: 10} }

func TestIdleSampleSetsBaselines(t *testing.T) {
	p := DefaultParams(gbit)
	r := started(&p, 700, -200)
	if r.BaseTxNs != 700 || r.BaseRxNs != -200 || r.BaseRttNs != 500 || r.Decisions != 0 {
		t.Errorf("after the idle sample: %+v", r)
	}
	if d := Step(r, &p, measured(700, -200), uint64(sec)); d.Action == ActionNone {
		t.Errorf("the first sample of data decides nothing: %s", d.Reason())
	}
}

func TestFirstSampleOnlyInitialises(t *testing.T) {
	p := DefaultParams(gbit)
	r := Regs{RateBps: gbit}
	if d := Step(&r, &p, measured(9e6, 9e6), uint64(sec)); d.Action != ActionNone || d.Why != WhyFirstSample {
		t.Errorf("got %v: %s", d.Action, d.Reason())
	}
}

// TestDrainedQueueLowersBaseline: the round trip falls too, so this is no clock.
func TestDrainedQueueLowersBaseline(t *testing.T) {
	p := DefaultParams(gbit)
	r := started(&p, 5e6, 1e6) // learnt in a standing queue
	Step(r, &p, measured(1e6, 1e6), uint64(sec))
	if r.BaseTxNs != 1e6 || r.BaseRxNs != 1e6 || r.BaseRttNs != 2e6 {
		t.Errorf("base delays %d, %d, %d; want 1, 1 and 2 ms", r.BaseTxNs, r.BaseRxNs, r.BaseRttNs)
	}
}

// TestClockMovesResplit: tx +x, rx -x, round trip unchanged, small (drift) and
// large (a clock that was set). With the queue empty the split is exact; with a
// queue drift may hide at most that queue, until it drains, and a clock that was set
// hides nothing of it.
func TestClockMovesResplit(t *testing.T) {
	for _, x := range []int64{50, -50, 5e6, -5e6, 3e11, -3e11} {
		for _, queue := range []int64{0, 1e5} {
			p := DefaultParams(10 * gbit)
			r := started(&p, 5e5, 5e5)
			run(r, &p, measured(5e5+queue, 5e5))
			d := run(r, &p, measured(5e5+queue+x, 5e5-x))
			if queue == 0 && (r.TrendTxNs != 0 || r.TrendRxNs != 0) {
				t.Errorf("clock moved by %d: looks like a trend of %d/%d", x, r.TrendTxNs, r.TrendRxNs)
			}
			if d.Action.Cuts() || r.QueueingTxNs < 0 || r.QueueingTxNs > queue {
				t.Errorf("clock moved by %d with a queue of %d: %v, excess %d", x, queue, d.Action, r.QueueingTxNs)
			}
			if hidden := queue - r.QueueingTxNs; max(x, -x) > queue && hidden != 0 {
				t.Errorf("clock set by %d: hides %d ns of a queue of %d", x, hidden, queue)
			}
			d = run(r, &p, measured(5e5+x, 5e5-x))
			if d.Action != ActionRaise || r.QueueingTxNs != 0 || r.QueueingRxNs != 0 || r.BaseTxNs != 5e5+x || r.BaseRxNs != 5e5-x {
				t.Errorf("clock moved by %d, queue of %d drained: %v, excess %d/%d, base delays %d/%d",
					x, queue, d.Action, r.QueueingTxNs, r.QueueingRxNs, r.BaseTxNs, r.BaseRxNs)
			}
		}
	}
}

// TestBothFall: lower minima of both directions, from different packets, so that
// the round trip did not fall with them. Neither base delay may rise over that.
func TestBothFall(t *testing.T) {
	p := DefaultParams(gbit)
	r := started(&p, 500, 500)
	run(r, &p, Sample{Tx: 400, Rx: 400, RTT: 1000, Samples: 10})
	if r.BaseTxNs != 400 || r.BaseRxNs != 500 || r.BaseRttNs != 1000 {
		t.Errorf("base delays %d, %d, %d; want 400, 500, 1000", r.BaseTxNs, r.BaseRxNs, r.BaseRttNs)
	}
}

// TestMixedWindow: the clock was set within the window, so the minima of the two
// directions are from before and after. Without a round trip of its own the
// sample is seen to be impossible; with it the base delays stay right.
func TestMixedWindow(t *testing.T) {
	p := DefaultParams(gbit)
	r := started(&p, 5e5, 5e5)
	before := *r
	d := run(r, &p, Sample{Tx: 5e5, Rx: 5e5 - 3e9, Samples: 10})
	if d.Why != WhyClockStep || r.BaseRxNs != before.BaseRxNs {
		t.Errorf("impossible sum: %s, base %d", d.Reason(), r.BaseRxNs)
	}
	d = run(r, &p, Sample{Tx: 5e5, Rx: 5e5 - 3e9, RTT: 1e6, Samples: 10})
	if d.Action.Cuts() || r.BaseRttNs != 1e6 {
		t.Errorf("with its round trip: %v, base round trip %d", d.Action, r.BaseRttNs)
	}
	if d = run(r, &p, measured(5e5+3e9, 5e5-3e9)); d.Action.Cuts() || r.QueueingTxNs != 0 {
		t.Errorf("after the step: %v, excess %d", d.Action, r.QueueingTxNs)
	}
}

// TestRouteChange: a longer way becomes the base delay when the window ends, and
// not before one window and not after two.
func TestRouteChange(t *testing.T) {
	p := DefaultParams(gbit)
	r := started(&p, 1e6, 1e6)
	var learnt uint64
	for now := uint64(sec); now < uint64(30*sec) && learnt == 0; now += uint64(10 * ms) {
		Step(r, &p, measured(4e6, 1e6), now)
		if r.BaseTxNs == 4e6 {
			learnt = now
		}
	}
	if learnt < p.BaseWindowNs || learnt > 2*p.BaseWindowNs+uint64(sec) {
		t.Errorf("new base delay after %d ms, want 10 to 21 s", learnt/1e6)
	}
	if r.TrendTxNs != 0 {
		t.Errorf("the new base delay looks like a trend of %d", r.TrendTxNs)
	}
}

func TestIdleDestinationKeepsBaseline(t *testing.T) {
	p := DefaultParams(gbit)
	r := started(&p, 1e6, 1e6)
	for now := uint64(sec); now < uint64(60*sec); now += uint64(sec) {
		Step(r, &p, Sample{}, now)
	}
	if r.BaseTxNs != 1e6 {
		t.Errorf("baseline %d after a minute without feedback", r.BaseTxNs)
	}
}

func TestPeerBeginsToEcho(t *testing.T) {
	p := DefaultParams(gbit)
	var r Regs
	run(&r, &p, Sample{RTT: 2e6}, Sample{RTT: 3e6})
	if r.State&StateRTT == 0 || r.QueueingTxNs != 1e6 || r.QueueingRxNs != 0 {
		t.Errorf("round trips: q %d/%d, want 1 ms and 0", r.QueueingTxNs, r.QueueingRxNs)
	}
	if d := run(&r, &p, measured(-5e9, 5e9+2e6)); d.Why != WhyFirstSample || r.State&StateRTT != 0 {
		t.Errorf("the first echo must set new base delays: %s", d.Reason())
	}
}

// TestRoundTripAlone: with or without a count, a round trip without one-way times
// is the transmit time.
func TestRoundTripAlone(t *testing.T) {
	for _, samples := range []uint32{0, 1, 9} {
		p := DefaultParams(gbit)
		r := Regs{RateBps: gbit}
		var d Decision
		for _, rtt := range []int64{1e6, 1e6, 9e6, 9e6} {
			d = run(&r, &p, Sample{RTT: rtt, Samples: samples})
		}
		if r.QueueingTxNs != 8e6 || r.QueueingRxNs != 0 || d.Action != ActionCut {
			t.Errorf("%d samples: q %d/%d, %v; want 8 ms/0 and a cut", samples, r.QueueingTxNs, r.QueueingRxNs, d.Action)
		}
	}
}
