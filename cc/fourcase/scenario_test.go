// SPDX-License-Identifier: Apache-2.0

package fourcase

import (
	"slices"
	"testing"
	"time"
)

const (
	ms  = time.Millisecond
	us  = time.Microsecond
	sec = time.Second

	mbit = uint64(1_000_000)
	gbit = uint64(1_000_000_000)
)

// incast is the usual case: 8 senders, 1 Gbit/s, 8 ms of buffer, 1 ms away.
func incast(edit ...func(*fluid)) fluid {
	f := fluid{capacity: gbit, buffer: 8 * ms, rtt: ms, senders: 8, run: 20 * sec, warm: 2 * sec}
	for _, e := range edit {
		e(&f)
	}
	return f
}

func literally(f *fluid) {
	f.params = func(p *Params) { p.Mode, p.MinRateBps = ModeLiteral, mbit/10 }
}

func literallyBanded(f *fluid) {
	f.params = func(p *Params) {
		p.Mode, p.MinRateBps, p.LiteralDeadbandNs = ModeLiteral, mbit/10, uint64(100*us)
	}
}

// congestedReturn is a queue of 5 ms on the reverse path, coming and going.
func congestedReturn(t time.Duration) time.Duration {
	return 5 * ms * time.Duration(t/(100*ms)%2)
}

// deep is a slow bottleneck with a deep buffer behind a 10 Gbit/s link.
func deep(capacity uint64) func(*fluid) {
	return func(f *fluid) {
		f.senders, f.link, f.capacity, f.buffer, f.jitter = 1, 10*gbit, capacity, 30*ms, 100*us
		f.warm = 3 * sec
	}
}

// TestFluidLiteral shows why the words of S1.6 alone do not do: each row must
// fail in the way that docs/study/four-case.md says.
func TestFluidLiteral(t *testing.T) {
	for _, c := range []struct {
		name  string
		f     fluid
		fails func(result) bool
	}{
		{"8:1, no jitter: never fires", incast(literally), func(r result) bool { return r.loss > 0.8 && r.cuts == 0 }},
		{"8:1, 20 us jitter: cuts on noise", incast(literally, func(f *fluid) { f.jitter = 20 * us }),
			func(r result) bool { return r.util < 0.01 }},
		{"8:1, 20 us jitter, 100 us deadband", incast(literallyBanded, func(f *fluid) { f.jitter = 20 * us }),
			func(r result) bool { return r.loss > 0.8 }},
		{"8:1, clock 10 ms behind, 20 us jitter", incast(literally, func(f *fluid) { f.offset, f.jitter = -10*ms, 20*us }),
			func(r result) bool { return r.util < 0.06 }},
		{"8:1, +-10 ms, +-50 ppm, 20 us jitter", incast(literally, func(f *fluid) {
			f.offset, f.driftPPM, f.alternate, f.jitter, f.run = 10*ms, 50, true, 20*us, 60*sec
		}), func(r result) bool { return r.util < 0.06 }},
		{"1:1, only the reverse path congested, 20 us jitter", incast(literally, func(f *fluid) {
			f.senders, f.reverse, f.jitter = 1, congestedReturn, 20*us
		}), func(r result) bool { return r.util < 0.01 }},
	} {
		r := c.f.simulate(1)
		t.Logf("literal  %-48s %v", c.name, r)
		if !c.fails(r) {
			t.Errorf("%s: does not fail as documented", c.name)
		}
	}
}

func TestFluidRobust(t *testing.T) {
	for _, c := range []struct {
		name      string
		f         fluid
		util      float64 // smallest utilisation
		p99, p50  time.Duration
		lossBelow float64
	}{
		{name: "8:1, no jitter", f: incast(), p99: 3 * ms},
		{name: "8:1, 20 us jitter", f: incast(func(f *fluid) { f.jitter = 20 * us }), p99: 3 * ms},
		{name: "8:1, 1 ms jitter", f: incast(func(f *fluid) { f.jitter = ms }), p99: 3 * ms},
		{name: "8:1, 300 us jitter, one echo a window", f: incast(func(f *fluid) { f.jitter, f.coarse = 300*us, true }), p99: 3 * ms},
		{name: "8:1, clocks 10 ms behind", f: incast(func(f *fluid) { f.offset = -10 * ms }), p99: 3 * ms},
		{name: "8:1, +-10 ms, +-50 ppm, 20 us jitter, 120 s", f: incast(func(f *fluid) {
			f.offset, f.driftPPM, f.alternate, f.jitter, f.run = 10*ms, 50, true, 20*us, 120*sec
		}), p99: 3 * ms},
		{name: "8:1, clocks set 300 ms forward", f: incast(func(f *fluid) { f.stepAt, f.step = 5*sec, 300*ms }), p99: 3 * ms},
		{name: "8:1, clocks set 300 ms back, sums for RTT", f: incast(func(f *fluid) {
			f.stepAt, f.step, f.noRTT = 5*sec, -300*ms, true
		}), p99: 3 * ms},
		{name: "8:1, from 900 Mbit/s and seven times 1 Mbit/s", f: incast(func(f *fluid) {
			f.starts = func(i int) uint64 {
				if i == 0 {
					return 900 * mbit
				}
				return mbit
			}
		}), p99: 4 * ms},
		{name: "8:1, one joins every 2 s into the standing queue, measured from 20 s", f: incast(func(f *fluid) {
			f.joins = func(i int) time.Duration { return time.Duration(i) * 2 * sec }
			f.jitter, f.warm, f.run = 20*us, 20*sec, 60*sec
		}), p99: 4 * ms},
		{name: "8:1, peers echo nothing", f: incast(func(f *fluid) { f.rttOnly = true }), p99: 3 * ms},
		{name: "8:1, evaluated every 50 ms", f: incast(func(f *fluid) { f.tick, f.run, f.warm = 50*ms, 60*sec, 20*sec }), p99: 4 * ms},
		{name: "8:1, evaluated every 100 ms", f: incast(func(f *fluid) { f.tick, f.run, f.warm = 100*ms, 60*sec, 20*sec }), util: 0.8},
		{name: "16:1 all at once, from the first packet", f: incast(func(f *fluid) { f.senders, f.warm = 16, 0 }), p99: 4 * ms, lossBelow: 0.04},
		{name: "16:1 all at once, no sample before data", f: incast(func(f *fluid) { f.senders, f.warm, f.noIdle = 16, 0, true }), p99: 8 * ms, lossBelow: 0.04},
		{name: "1:1, only the reverse path congested", f: incast(func(f *fluid) { f.senders, f.reverse, f.jitter = 1, congestedReturn, 20*us }), util: 0.999},
		{name: "1:1, idle, from an even share of 1/8", f: incast(func(f *fluid) { f.senders, f.start = 1, gbit/8 })},
		{name: "100 Mbit/s behind a 10 Gbit/s link, 30 ms buffer", f: incast(deep(100 * mbit)), p99: 6 * ms},
		{name: "400 Mbit/s behind a 10 Gbit/s link, 30 ms buffer", f: incast(deep(400 * mbit)), p99: 4 * ms},
		{name: "4 senders, 100 Mbit/s", f: incast(deep(100*mbit), func(f *fluid) { f.senders = 4 }), p99: 8 * ms},
		{name: "8 senders, 10 Mbit/s, 100 ms buffer, min_rate 1 Mbit/s", f: incast(deep(10*mbit), func(f *fluid) {
			f.senders, f.buffer, f.run, f.warm = 8, 100*ms, 60*sec, 20*sec
			// By default no sender behind 10 Gbit/s goes below 10 Mbit/s.
			f.params = func(p *Params) { p.MinRateBps = mbit }
		}), p99: 30 * ms},
		{name: "2 senders, 10 Gbit/s", f: incast(func(f *fluid) { f.senders, f.link, f.capacity = 2, 10*gbit, 10*gbit }), p99: 2 * ms},
	} {
		if c.util == 0 {
			c.util = 0.95
		}
		if c.lossBelow == 0 {
			c.lossBelow = 0.001
		}
		var all []result
		for seed := uint64(1); seed <= 3; seed++ {
			r := c.f.simulate(seed)
			all = append(all, r)
			if r.util < c.util || r.jain < 0.95 || r.loss > c.lossBelow || (c.p99 > 0 && r.q99 > c.p99) {
				t.Errorf("%s, seed %d: %v; want util >= %.3f, Jain >= 0.95, loss <= %.3f, p99 <= %v",
					c.name, seed, r, c.util, c.lossBelow, c.p99)
			}
		}
		slices.SortFunc(all, func(a, b result) int { return int((a.util - b.util) * 1e6) })
		t.Logf("robust   %-50s %v  (median of 3)", c.name, all[1])
	}
}

// TestFluidUnpoliced is what the queues above are to be compared with.
func TestFluidUnpoliced(t *testing.T) {
	for _, capacity := range []uint64{100 * mbit, 400 * mbit} {
		fixed := func(f *fluid) { f.params = func(p *Params) { p.Mode = ModeFixed } }
		without := incast(deep(capacity), fixed).simulate(1)
		with := incast(deep(capacity)).simulate(1)
		t.Logf("%d Mbit/s: without %v", capacity/mbit, without)
		t.Logf("%d Mbit/s: robust  %v", capacity/mbit, with)
		if 2*with.q50 >= without.q50 || 2*with.q99 >= without.q99 {
			t.Errorf("%d Mbit/s: the queue is not below half of the unpoliced one", capacity/mbit)
		}
	}
}

// TestFluidSlowdown: the bottleneck runs at a tenth for five seconds.
func TestFluidSlowdown(t *testing.T) {
	var slow, back time.Duration
	f := incast(deep(100 * mbit))
	f.slowFrom, f.slowTo = 8*sec, 13*sec
	var late []float64
	f.onStep = func(at time.Duration, _, after uint64, _ Sample, _ Decision) {
		if at > f.slowFrom && slow == 0 && after <= 12*mbit {
			slow = at - f.slowFrom
		}
	}
	f.onTick = func(at time.Duration, bps float64) {
		if at > f.slowTo+100*ms && back == 0 && bps >= 0.9*float64(f.capacity) {
			back = at - f.slowTo
		}
		if at > f.slowTo+2*sec {
			late = append(late, bps/float64(f.capacity))
		}
	}
	r := f.simulate(1)
	var sum float64
	for _, u := range late {
		sum += u
	}
	t.Logf("slowed tenfold: rate <= 12 Mbit/s after %v; restored: bottleneck >= 90 %% full after %v, then util %.3f; whole run %v",
		slow, back, sum/float64(len(late)), r)
	if slow == 0 || slow > 4*sec || back == 0 || back > 2*sec || sum/float64(len(late)) < 0.95 {
		t.Error("did not follow the bottleneck down and up in time")
	}
}

// TestFluidDrain: a sender whose window has filled a queue of 20 ms before it is
// measured at all. The excess that it sees then is none, and it keeps the queue; a
// pause before the first decision tells it what the queue is.
func TestFluidDrain(t *testing.T) {
	var with, without result
	for _, drain := range []bool{false, true} {
		f := incast(deep(100 * mbit))
		f.noIdle, f.drain, f.backlog, f.start, f.warm, f.run = true, drain, 20*ms, 100*mbit, 500*ms, 5*sec
		r := f.simulate(1)
		t.Logf("drain %v: %v", drain, r)
		if drain {
			with = r
		} else {
			without = r
		}
	}
	if 2*with.q99 >= without.q99 || with.util < 0.95 {
		t.Error("the pause does not halve the queue, or costs too much")
	}
}

// TestFluidStart: from the link's rate to a bottleneck a hundred times slower.
func TestFluidStart(t *testing.T) {
	f := incast(deep(100 * mbit))
	f.warm, f.run = 0, 5*sec
	var settled time.Duration
	f.onStep = func(at time.Duration, _, after uint64, _ Sample, _ Decision) {
		if settled == 0 && after < 110*mbit {
			settled = at
		}
	}
	r := f.simulate(1)
	t.Logf("10 Gbit/s into 100 Mbit/s: below 110 Mbit/s after %v; first 5 s %v", settled, r)
	if settled == 0 || settled > sec {
		t.Error("took longer than a second to find the bottleneck")
	}
}

// TestFluidVerySlow: less than a packet per round trip for each sender.
func TestFluidVerySlow(t *testing.T) {
	f := incast(func(f *fluid) {
		f.senders, f.capacity, f.link, f.start = 50, 10*mbit, gbit, 20*mbit
		f.buffer, f.run, f.warm = 500*ms, 120*sec, 60*sec
		f.params = func(p *Params) { p.MinRateBps = 8000 }
	})
	r := f.simulate(1)
	t.Logf("50 senders, 10 Mbit/s: %v", r)
	if r.util < 0.9 || r.jain < 0.9 || r.q99 >= f.buffer/2 {
		t.Error("does not hold at 200 kbit/s a sender")
	}
}

func TestFluidAppLimited(t *testing.T) {
	f := incast(func(f *fluid) { f.senders, f.start, f.appLimit = 1, 100*mbit, 50*mbit })
	f.onStep = func(at time.Duration, before, after uint64, s Sample, d Decision) {
		if s.AppLimited && after > before {
			t.Fatalf("%v: raised from %d to %d: %s", at, before, after, d.Reason())
		}
	}
	if r := f.simulate(1); r.rates[0] != 100*mbit {
		t.Errorf("rate %d, want the 100 Mbit/s it started with", r.rates[0])
	}
}
