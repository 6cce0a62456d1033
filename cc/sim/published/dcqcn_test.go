// SPDX-License-Identifier: Apache-2.0

package published

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func dcqcnNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Fatalf("%s: got %.9g, want %.9g", what, got, want)
	}
}

func TestDCQCNPaperCutsAtEachCNP(t *testing.T) {
	p := DCQCNPaper(40e9)
	f := NewDCQCNFlow(&p)
	dcqcnNear(t, "starts at line rate", f.Rate(), 40e9)
	f.CNP(0)
	dcqcnNear(t, "alpha 1: half", f.Rate(), 20e9)
	dcqcnNear(t, "target is the rate before", f.Target(), 40e9)
	dcqcnNear(t, "alpha stays 1", f.Alpha(), 1)
	f.CNP(50_000)
	dcqcnNear(t, "half again", f.Rate(), 10e9)
	dcqcnNear(t, "target", f.Target(), 20e9)
	// 55 us later: alpha decays once, the first of five recovery steps.
	f.Expire(105_000)
	dcqcnNear(t, "alpha", f.Alpha(), 255.0/256)
	dcqcnNear(t, "recovery 1", f.Rate(), 15e9)
	f.Expire(105_000 + 4*55_000)
	dcqcnNear(t, "recovery 5", f.Rate(), 20e9-10e9/32)
	dcqcnNear(t, "target has not moved", f.Target(), 20e9)
	f.Expire(105_000 + 5*55_000)
	dcqcnNear(t, "additive: target", f.Target(), 20.04e9)
	dcqcnNear(t, "additive: rate", f.Rate(), (20e9-10e9/32+20.04e9)/2)
}

func TestDCQCNPaperByteCounter(t *testing.T) {
	p := DCQCNPaper(40e9)
	f := NewDCQCNFlow(&p)
	f.Sent(0, 20_000_000)
	dcqcnNear(t, "no CNP yet: nothing to recover", f.Rate(), 40e9)
	f.CNP(0)
	f.Sent(1, 9_999_999)
	dcqcnNear(t, "not yet 10 MB", f.Rate(), 20e9)
	f.Sent(2, 1)
	dcqcnNear(t, "10 MB: one step", f.Rate(), 30e9)
	for i := range 6 {
		f.Sent(int64(3+i), 10_000_000)
	}
	dcqcnNear(t, "past F on one counter: additive", f.Target(), 40e9)
	f.Expire(6 * 55_000)
	f.target = 30e9
	f.Sent(400_000, 10_000_000)
	dcqcnNear(t, "past F on both: hyper", f.Target(), 30.4e9)
}

func TestDCQCNConnectXLooksEvery4us(t *testing.T) {
	p := DCQCNConnectX(100e9)
	f := NewDCQCNFlow(&p)
	f.CNP(10_000)
	dcqcnNear(t, "not at once", f.Rate(), 100e9)
	if f.Timer() != 14_000 {
		t.Fatalf("timer %d, want 14000", f.Timer())
	}
	f.Expire(14_000)
	// alpha decayed four times without another CNP
	alpha := math.Pow(255.0/256, 4)
	dcqcnNear(t, "alpha", f.Alpha(), alpha)
	dcqcnNear(t, "cut", f.Rate(), 100e9*(1-alpha/2))
	r := f.Rate()
	f.CNP(14_500) // before 15 us: one step up, then decay to 18 us
	f.CNP(14_600)
	f.Expire(18_000)
	a2 := (alpha*255/256 + 1.0/256) * math.Pow(255.0/256, 3)
	dcqcnNear(t, "alpha counts the period with a CNP once", f.Alpha(), a2)
	dcqcnNear(t, "one cut for two CNPs", f.Rate(), r*(1-a2/2))
	dcqcnNear(t, "cuts in a row keep the first target", f.Target(), 100e9)
	r = f.Rate()
	f.Expire(18_000 + 300_000)
	dcqcnNear(t, "recovery", f.Rate(), (r+100e9)/2)
	if f.Timer() != 618_000 {
		t.Fatalf("timer %d, want 618000", f.Timer())
	}
	f.CNP(320_100)
	f.Expire(322_000)
	dcqcnNear(t, "a cut after an increase takes the rate as target", f.Target(), (r+100e9)/2)
}

func TestDCQCNConnectXIncreaseSteps(t *testing.T) {
	p := DCQCNConnectX(100e9)
	f := NewDCQCNFlow(&p)
	f.CNP(0)
	f.Expire(4_000)
	f.target, f.rate = 50e9, 50e9
	f.Expire(4_000 + 300_000)
	dcqcnNear(t, "stage 0 recovers", f.Target(), 50e9)
	f.Expire(4_000 + 600_000)
	dcqcnNear(t, "stage 1 adds 20 Mb/s", f.Target(), 50.02e9)
	f.Expire(4_000 + 900_000)
	dcqcnNear(t, "later stages add 200 Mb/s", f.Target(), 50.22e9)
}

// One call far in the future is the same as many small ones.
func TestDCQCNExpireIsLazy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DCQCNConnectX(100e9)
		if rapid.Bool().Draw(t, "paper") {
			p = DCQCNPaper(100e9)
		}
		often, seldom := NewDCQCNFlow(&p), NewDCQCNFlow(&p)
		now := int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			gap := rapid.Int64Range(1, 700_000).Draw(t, "gap")
			for step := now; step < now+gap; step += 777 {
				often.Expire(step)
			}
			now += gap
			often.CNP(now)
			seldom.CNP(now)
			if math.Abs(often.Rate()-seldom.Rate()) > 1 || math.Abs(often.Alpha()-seldom.Alpha()) > 1e-9 {
				t.Fatalf("at %d: %v and %v", now, often, seldom)
			}
		}
	})
}

// Expire at the times of Timer is as good as Expire all the time.
func TestDCQCNTimerMissesNoChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DCQCNConnectX(100e9)
		if rapid.Bool().Draw(t, "paper") {
			p = DCQCNPaper(100e9)
		}
		often, timed := NewDCQCNFlow(&p), NewDCQCNFlow(&p)
		cnps := rapid.SliceOfN(rapid.Int64Range(0, 3_000), 0, 20).Draw(t, "cnps in us")
		at := map[int64]bool{}
		for _, us := range cnps {
			at[us*1000+250] = true
		}
		for now := int64(0); now < 4_000_000; now += 250 {
			if timed.Timer() <= now {
				timed.Expire(now)
			}
			often.Expire(now)
			if at[now] {
				timed.CNP(now)
				often.CNP(now)
			}
			if math.Abs(often.Rate()-timed.Rate()) > 1 {
				t.Fatalf("at %d: rates %g and %g", now, often.Rate(), timed.Rate())
			}
		}
	})
}

func TestDCQCNNotifierSpacesCNPs(t *testing.T) {
	p := DCQCNPaper(40e9)
	var n DCQCNNotifier
	for _, c := range []struct {
		at   int64
		want bool
	}{{7, true}, {50_006, false}, {50_007, true}, {60_000, false}, {200_000, true}} {
		if got := n.CE(&p, c.at); got != c.want {
			t.Errorf("mark at %d: CNP %v, want %v", c.at, got, c.want)
		}
	}
}

func TestDCQCNRateStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DCQCNPaper(100e9)
		f := NewDCQCNFlow(&p)
		now := int64(0)
		for range rapid.IntRange(0, 300).Draw(t, "events") {
			now += rapid.Int64Range(0, 200_000).Draw(t, "dt")
			if rapid.Bool().Draw(t, "cnp") {
				f.CNP(now)
			} else {
				f.Sent(now, rapid.IntRange(0, 20_000_000).Draw(t, "bytes"))
				f.Expire(now)
			}
			if !(f.Rate() >= p.MinBps && f.Rate() <= p.LineBps) {
				t.Fatalf("rate %g", f.Rate())
			}
		}
	})
}

func TestDCQCNValidate(t *testing.T) {
	for _, p := range []DCQCNParams{DCQCNPaper(40e9), DCQCNConnectX(100e9)} {
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
		p.G = 0
		if p.Validate() == nil {
			t.Error("accepted g 0")
		}
	}
}
