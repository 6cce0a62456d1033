// SPDX-License-Identifier: Apache-2.0

package published

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func timelyNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*math.Abs(want) {
		t.Fatalf("%s: got %g, want %g", what, got, want)
	}
}

// At 10 Gb/s delta is 10 Mb/s and hyperactive delta 50 Mb/s. The gradient is
// 0.875 of the difference, over 20 us.
func TestTimelySequence(t *testing.T) {
	p := TimelyDefault(10e9)
	f := NewTimelyFlow(&p)
	steps := []struct {
		why  string
		rtt  int64
		want float64
	}{
		{"first sample only starts", 100_000, 10e9},
		// diff = .875*10us = 8.75us; gradient .4375; 1-.8*.4375 = .65
		{"rising: cut by the gradient", 110_000, 6.5e9},
		// diff = .125*8.75 + .875*0 = 1.09375us; gradient .0546875; factor .95625
		{"level, but the smoothed gradient is positive", 110_000, 6.215625e9},
		// diff = .125*1.09375-.875*10 = -8.61..us
		{"falling: additive increase", 100_000, 6.225625e9},
		// THigh/rtt = .5: 1-.8*.5 = .6
		{"above t_high: cut by the distance", 1_000_000, 3.735375e9},
		{"below t_low: 1", 40_000, 3.745375e9},
		{"below t_low: 2", 40_000, 3.755375e9},
		{"below t_low: 3", 40_000, 3.765375e9},
		{"below t_low: 4", 40_000, 3.775375e9},
		{"below t_low: 5", 40_000, 3.785375e9},
		{"hyperactive after five", 40_000, 3.835375e9},
	}
	for _, s := range steps {
		f.Round(s.rtt)
		timelyNear(t, s.why, f.Rate(), s.want)
	}
}

func TestTimelyPaperHasNoHyperactiveIncreaseBelowTLow(t *testing.T) {
	p := TimelyDefault(10e9)
	p.HAIBelowTLow = false
	f := NewTimelyFlow(&p)
	f.rate = 1e9
	for range 11 {
		f.Round(40_000)
	}
	timelyNear(t, "ten additive steps", f.Rate(), 1.1e9)
}

func TestTimelyOneDecisionPerRound(t *testing.T) {
	p := TimelyDefault(10e9)
	f := NewTimelyFlow(&p)
	f.Ack(100_000, 1000, 50_000) // primes; the round ends beyond 50000
	for seq := uint64(2000); seq <= 50_000; seq += 1000 {
		f.Ack(400_000, seq, seq+50_000)
	}
	timelyNear(t, "inside the round nothing moves", f.Rate(), 10e9)
	f.Ack(110_000, 51_000, 100_000)
	timelyNear(t, "beyond it one cut", f.Rate(), 6.5e9)
}

func TestTimelyOneDecisionPerSegment(t *testing.T) {
	p := TimelyDefault(10e9)
	p.Segment = 10
	f := NewTimelyFlow(&p)
	f.rate = 1e9
	for acked := uint64(1); acked <= 41; acked++ {
		f.Ack(40_000, acked, acked+1000)
	}
	// Packet 1 primes; 11, 21, 31 and 41 decide.
	timelyNear(t, "four additive steps", f.Rate(), 1.04e9)
}

func TestTimelyRateStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := TimelyDefault(100e9)
		f := NewTimelyFlow(&p)
		for _, rtt := range rapid.SliceOf(rapid.Int64Range(1, 10_000_000)).Draw(t, "rtts") {
			f.Round(rtt)
			if f.Rate() < p.MinBps || f.Rate() > p.LineBps || math.IsNaN(f.Rate()) {
				t.Fatalf("rate %g", f.Rate())
			}
		}
	})
}

func TestTimelyValidate(t *testing.T) {
	for _, spoil := range []func(*TimelyParams){
		func(p *TimelyParams) { p.LineBps = 0 },
		func(p *TimelyParams) { p.MinBps = 0 },
		func(p *TimelyParams) { p.THighNs = p.TLowNs },
		func(p *TimelyParams) { p.EWMA = 2 },
	} {
		p := TimelyDefault(10e9)
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		spoil(&p)
		if p.Validate() == nil {
			t.Errorf("accepted %+v", p)
		}
	}
}
