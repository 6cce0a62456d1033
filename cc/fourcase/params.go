// SPDX-License-Identifier: Apache-2.0

package fourcase

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/softroce/softroce-xdp/internal/quantity"
)

// Mode selects the rules.
type Mode uint32

// The modes.
const (
	ModeRobust  Mode = iota // the completed table on queueing delay
	ModeLiteral             // the words of S1.6
	ModeFixed               // the rate of S1.2, never changed
)

var modeNames = [...]string{"robust", "literal", "fixed"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint32(m))
}

// ParseMode is the inverse of Mode.String.
func ParseMode(s string) (Mode, error) {
	for i, name := range modeNames {
		if s == name {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("unknown policy mode %q: use robust, literal or fixed", s)
}

// Params are the policy's parameters: struct policy_params of bpf/lib/policy.h,
// field by field. Rates are bits per second, times nanoseconds, and names that
// end in Q10 are fractions in units of 1/1024.
type Params struct {
	MinRateBps        uint64
	MaxRateBps        uint64 // the link's rate
	InitialRateBps    uint64 // rate at which a destination starts (S1.2); 0 = MaxRateBps
	TargetNs          uint64 // D: queueing delay aimed at, at TargetRateBps
	TargetRateBps     uint64 // D is larger below it and smaller above, as 1/sqrt(rate)
	TargetMaxNs       uint64 // upper bound of D
	DeadbandNs        uint64 // e: smaller changes are no change
	BaseWindowNs      uint64 // window of a minimum that is a base delay
	IntervalNs        uint64 // least time between decisions
	LiteralDeadbandNs uint64 // literal: 0 = the words of S1.6
	Mode              Mode
	BetaQ10           uint32 // gain of the proportional decrease
	MaxCutQ10         uint32 // largest decrease of one decision, of the rate
	RaiseQ10          uint32 // one increase at TargetRateBps, of the rate
	MaxRaiseQ10       uint32 // largest increase of one decision, of the rate
	RaiseAfter        uint32 // increases in a row before they accelerate
	LossCutQ10        uint32 // decrease on loss
	CECutQ10          uint32 // decrease if every echo reports CE
	BigCutQ10         uint32 // literal: case 1
	SmallCutQ10       uint32 // literal: case 2
	TargetSteepQ10    uint32 // D is at most this part of TargetNs, growing as 1/rate^2; 0 = off
	Reserved          uint32 // 0
}

// Limits that keep every product of the step inside 64 bits.
const (
	maxRateLimit = 1 << 42 // 4.4 Tbit/s
	maxTimeLimit = uint64(time.Hour)
	one          = 1024 // 1.0 in Q10
)

// DefaultParams are parameters for a link of linkBps bits per second whose
// destinations are about a millisecond or less away.
func DefaultParams(linkBps uint64) Params {
	return Params{
		MinRateBps:     defaultMinRate(linkBps),
		MaxRateBps:     linkBps,
		InitialRateBps: 0,
		TargetNs:       uint64(500 * time.Microsecond),
		TargetRateBps:  1_000_000_000,
		TargetMaxNs:    uint64(5 * time.Millisecond),
		DeadbandNs:     uint64(100 * time.Microsecond),
		BaseWindowNs:   uint64(10 * time.Second),
		IntervalNs:     uint64(5 * time.Millisecond),
		Mode:           ModeRobust,
		BetaQ10:        154, // 0.15
		MaxCutQ10:      512,
		RaiseQ10:       3, // 0.3 %
		MaxRaiseQ10:    256,
		RaiseAfter:     16,
		LossCutQ10:     256,
		CECutQ10:       256,
		BigCutQ10:      512,
		SmallCutQ10:    128,
	}
}

// ParamsFor are parameters for a link of linkBps bits per second and destinations with a
// base RTT of rttNs nanoseconds, where a decision is made every RTT and host jitter is small
// compared to it: hardware and the simulator. The agent uses DefaultParams, because hosts
// disturb its samples more than the network does (docs/study/four-case.md).
//
// At half of the link's rate or more the target is a queue of a quarter to three eighths of
// an RTT, at a third of the rate four fifths, and at a sixteenth and below two RTTs.
// windowed: WindowBytes is enforced as well as the rate. Too large an increase then makes no
// long queue, so increases may be larger.
func ParamsFor(linkBps, rttNs uint64, windowed bool) Params {
	p := DefaultParams(linkBps)
	rttNs = min(max(rttNs, 64), maxTimeLimit>>4)
	p.TargetRateBps = linkBps
	p.TargetNs = rttNs / 2
	p.TargetSteepQ10 = 192 // 3/16
	p.TargetMaxNs = 2 * rttNs
	p.DeadbandNs = rttNs / 8
	p.IntervalNs = rttNs
	p.BaseWindowNs = max(p.BaseWindowNs, 10*rttNs)
	p.RaiseQ10 = 15 // 1.5 %
	if windowed {
		p.RaiseQ10 = 20
	}
	p.MaxCutQ10 = 960
	return p
}

// defaultMinRate is a thousandth of the link's rate, but at least the smaller of 1 Mbit/s and
// a hundredth of the link's rate. At a lower rate a window of RoCEv2 packets takes longer
// than a sender's timeout of 67 ms, as perftest has, and packets that were not lost are sent
// again.
func defaultMinRate(linkBps uint64) uint64 {
	return min(max(linkBps/1000, 1_000_000), max(linkBps/100, 1))
}

// ParamError is the error of Validate: what is wrong, and what to do. It names parameters as
// `policy set` does, and writes their values with units.
type ParamError struct{ text string }

func (e *ParamError) Error() string { return e.text }

func paramErrorf(format string, args ...any) error {
	return &ParamError{fmt.Sprintf(format, args...)}
}

// share formats a share of a rate.
func share(q10 uint32) string {
	return strconv.FormatFloat(math.Round(float64(q10)/one*1e4)/100, 'f', -1, 64) + "%"
}

// Validate returns a *ParamError if a parameter is out of range or two contradict each other.
func (p *Params) Validate() error {
	rates := []struct {
		name string
		bps  uint64
	}{{"min-rate", p.MinRateBps}, {"max-rate", p.MaxRateBps}, {"target-rate", p.TargetRateBps}}
	for _, r := range rates {
		if r.bps == 0 || r.bps > maxRateLimit {
			return paramErrorf("%s is %s: set it between 1bit/s and %s", r.name, quantity.ExactRate(r.bps), quantity.ExactRate(maxRateLimit))
		}
	}
	if p.MinRateBps > p.MaxRateBps {
		return paramErrorf("min-rate (%s) is above max-rate (%s): lower it, or raise max-rate or the link's rate",
			quantity.ExactRate(p.MinRateBps), quantity.ExactRate(p.MaxRateBps))
	}
	if p.InitialRateBps != 0 && (p.InitialRateBps < p.MinRateBps || p.InitialRateBps > p.MaxRateBps) {
		return paramErrorf("initial-rate (%s) is not between min-rate (%s) and max-rate (%s): move it there, or set 0 for max-rate",
			quantity.ExactRate(p.InitialRateBps), quantity.ExactRate(p.MinRateBps), quantity.ExactRate(p.MaxRateBps))
	}
	if p.Mode > ModeFixed {
		return paramErrorf("mode is %d: use 0 (robust), 1 (literal) or 2 (fixed)", uint32(p.Mode))
	}
	if err := p.validateTimes(); err != nil {
		return err
	}
	return p.validateFractions()
}

func (p *Params) validateTimes() error {
	times := []struct {
		name      string
		ns, least uint64
	}{
		{"target", p.TargetNs, 1},
		{"target-max", p.TargetMaxNs, 1},
		{"deadband", p.DeadbandNs, 0},
		{"base-window", p.BaseWindowNs, 1},
		{"interval", p.IntervalNs, 0},
		{"literal-deadband", p.LiteralDeadbandNs, 0},
	}
	for _, t := range times {
		if t.ns < t.least || t.ns > maxTimeLimit {
			return paramErrorf("%s is %s: set it between %s and %s (one hour)", t.name, quantity.ExactTime(t.ns), quantity.ExactTime(t.least), quantity.ExactTime(maxTimeLimit))
		}
	}
	if p.TargetMaxNs < p.TargetNs {
		return paramErrorf("target-max (%s) is below target (%s): raise it to at least that", quantity.ExactTime(p.TargetMaxNs), quantity.ExactTime(p.TargetNs))
	}
	if p.DeadbandNs > p.TargetNs/2 {
		return paramErrorf("deadband (%s) is above half of target (%s): lower it, or raise the target; else noise that is no queue would count as one",
			quantity.ExactTime(p.DeadbandNs), quantity.ExactTime(p.TargetNs))
	}
	if p.BaseWindowNs < 10*p.IntervalNs {
		return paramErrorf("base-window (%s) is below ten times interval (%s): a base delay needs several decisions to see an empty queue; 10s is usual",
			quantity.ExactTime(p.BaseWindowNs), quantity.ExactTime(p.IntervalNs))
	}
	return nil
}

func (p *Params) validateFractions() error {
	fractions := []struct {
		name string
		q10  uint32
	}{
		{"beta", p.BetaQ10}, {"max-cut", p.MaxCutQ10}, {"raise", p.RaiseQ10},
		{"max-raise", p.MaxRaiseQ10}, {"loss-cut", p.LossCutQ10}, {"ce-cut", p.CECutQ10},
		{"big-cut", p.BigCutQ10}, {"small-cut", p.SmallCutQ10},
	}
	for _, f := range fractions {
		if f.q10 == 0 || f.q10 > one {
			return paramErrorf("%s is %s: set it between %s and 100%% (of the rate)", f.name, share(f.q10), share(1))
		}
	}
	if s := p.TargetSteepQ10; s != 0 && (s < leastSteep || s > one) {
		return paramErrorf("target-steep is %s: set it between %s and 100%% (target itself), or 0 for none", share(s), share(leastSteep))
	}
	if p.MaxRaiseQ10 < p.RaiseQ10 {
		return paramErrorf("max-raise (%s) is below raise (%s): raise it to at least that", share(p.MaxRaiseQ10), share(p.RaiseQ10))
	}
	if p.BigCutQ10 < p.SmallCutQ10 {
		return paramErrorf("big-cut (%s) is below small-cut (%s): case 1 must cut more than case 2", share(p.BigCutQ10), share(p.SmallCutQ10))
	}
	return nil
}
