// SPDX-License-Identifier: Apache-2.0

package fourcase

import (
	"strings"
	"testing"
)

func TestDefaultParamsAreValid(t *testing.T) {
	for _, link := range []uint64{1, 1000, 10 * mbit, 100 * mbit, gbit, 10 * gbit, 100 * gbit, 800 * gbit, maxRateLimit} {
		p := DefaultParams(link)
		if err := p.Validate(); err != nil {
			t.Errorf("%d bit/s: %v", link, err)
		}
		for _, rtt := range []uint64{0, 1, 1000, 8000, 1e6, 1e9, 1 << 63} {
			for _, windowed := range []bool{false, true} {
				p := ParamsFor(link, rtt, windowed)
				if err := p.Validate(); err != nil {
					t.Errorf("%d bit/s, %d ns: %v", link, rtt, err)
				}
			}
		}
	}
}

func TestDefaultMinRate(t *testing.T) {
	for link, want := range map[uint64]uint64{
		1: 1, 1000: 10, 10 * mbit: 100_000, 100 * mbit: mbit, gbit: mbit, 10 * gbit: 10 * mbit, 100 * gbit: 100 * mbit,
	} {
		if got := DefaultParams(link).MinRateBps; got != want {
			t.Errorf("link of %d bit/s: at least %d, want %d", link, got, want)
		}
	}
}

// TestValidateNamesTheField: the message names the parameter as
// `policy set` does, gives values with units and says what to do.
func TestValidateNamesTheField(t *testing.T) {
	for _, c := range []struct {
		edit func(*Params)
		want string
	}{
		{func(p *Params) { p.MinRateBps = 0 }, "min-rate is 0bit/s: set it between 1bit/s and 4.398046511104Tbit/s"},
		{func(p *Params) { p.MaxRateBps = 1 << 43 }, "max-rate is 8.796093022208Tbit/s: set it between"},
		{func(p *Params) { p.MinRateBps = 2 * gbit }, "min-rate (2Gbit/s) is above max-rate (1Gbit/s): lower it"},
		{func(p *Params) { p.InitialRateBps = 2 * gbit }, "initial-rate (2Gbit/s) is not between"},
		{func(p *Params) { p.TargetNs = 0 }, "target is 0ns: set it between 1ns and 3600s"},
		{func(p *Params) { p.TargetRateBps = 0 }, "target-rate is 0bit/s"},
		{func(p *Params) { p.TargetMaxNs = 1000 }, "target-max (1us) is below target (500us): raise it"},
		{func(p *Params) { p.DeadbandNs = 400_000 }, "deadband (400us) is above half of target (500us): lower it"},
		{func(p *Params) { p.BaseWindowNs = 1000 }, "base-window (1us) is below ten times interval ("},
		{func(p *Params) { p.IntervalNs = maxTimeLimit + 1 }, "interval is 3600.000000001s: set it between"},
		{func(p *Params) { p.LiteralDeadbandNs = 1 << 63 }, "literal-deadband is"},
		{func(p *Params) { p.Mode = 3 }, "mode is 3: use 0 (robust), 1 (literal) or 2 (fixed)"},
		{func(p *Params) { p.BetaQ10 = 0 }, "beta is 0%: set it between 0.1% and 100%"},
		{func(p *Params) { p.MaxCutQ10 = 1025 }, "max-cut is 100.1%"},
		{func(p *Params) { p.TargetSteepQ10 = 15 }, "target-steep is 1.46%: set it between 1.56% and 100% (target itself), or 0"},
		{func(p *Params) { p.MaxRaiseQ10 = 2 }, "max-raise (0.2%) is below raise (0.29%): raise it"},
		{func(p *Params) { p.BigCutQ10 = 100 }, "big-cut (9.77%) is below small-cut (12.5%)"},
	} {
		p := DefaultParams(gbit)
		c.edit(&p)
		err := p.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
}

func TestModeNames(t *testing.T) {
	for m := ModeRobust; m <= ModeFixed; m++ {
		if got, err := ParseMode(m.String()); err != nil || got != m {
			t.Errorf("ParseMode(%q) = %v, %v", m.String(), got, err)
		}
	}
	if _, err := ParseMode("bold"); err == nil || !strings.Contains(err.Error(), "use robust, literal or fixed") {
		t.Errorf("ParseMode(bold): %v", err)
	}
	if Mode(9).String() != "mode 9" {
		t.Errorf("Mode(9) is %q", Mode(9))
	}
}

// Data of a low-priority class follows the table too: the parameters are valid on every path,
// and a decision takes less and gives more than where an excess is a sender's own doing.
func TestParamsLowPriority(t *testing.T) {
	for _, link := range []uint64{100_000_000, 10_000_000_000, 400_000_000_000} {
		for _, rtt := range []uint64{1_000, 14_000, 1_000_000} {
			p, own := ParamsLowPriority(link, rtt), ParamsFor(link, rtt, true)
			if err := p.Validate(); err != nil {
				t.Errorf("%d bit/s, %d ns: %v", link, rtt, err)
			}
			if p.MaxCutQ10 >= own.MaxCutQ10 || p.RaiseQ10 <= own.RaiseQ10 || p.RaiseAfter >= own.RaiseAfter {
				t.Errorf("%d bit/s, %d ns: %+v against %+v", link, rtt, p, own)
			}
			if p.TargetNs <= own.TargetNs || p.TargetNs >= rtt || p.TargetMaxNs != own.TargetMaxNs {
				t.Errorf("%d bit/s, %d ns: target %d to %d", link, rtt, p.TargetNs, p.TargetMaxNs)
			}
		}
	}
}
