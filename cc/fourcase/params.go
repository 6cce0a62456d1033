// SPDX-License-Identifier: Apache-2.0

package fourcase

import (
	"fmt"
	"time"
)

// Mode selects the rules.
type Mode uint32

// The modes.
const (
	ModeRobust  Mode = iota // the completed table on excess over baseline
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
	InitialRateBps    uint64 // where a destination starts (S1.2); 0 = MaxRateBps
	TargetNs          uint64 // D: queueing delay aimed at, at TargetRateBps
	TargetRateBps     uint64 // D grows below and shrinks above, as 1/sqrt(rate)
	TargetMaxNs       uint64 // but not beyond this
	DeadbandNs        uint64 // e: smaller changes are no change
	BaseWindowNs      uint64 // how long a minimum stays the baseline
	IntervalNs        uint64 // least time between decisions
	LiteralDeadbandNs uint64 // literal: 0 = the words of S1.6
	Mode              Mode
	BetaQ10           uint32 // gain of the proportional cut
	MaxCutQ10         uint32 // most that one decision cuts
	RaiseQ10          uint32 // one raise at TargetRateBps, of the rate
	MaxRaiseQ10       uint32 // most that one decision raises, of the rate
	RaiseAfter        uint32 // raises in a row before they accelerate
	LossCutQ10        uint32 // cut on loss
	CECutQ10          uint32 // cut if every echo reports CE
	BigCutQ10         uint32 // literal: case 1
	SmallCutQ10       uint32 // literal: case 2
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
		MinRateBps:     min(1_000_000, max(linkBps/100, 1)),
		MaxRateBps:     linkBps,
		InitialRateBps: 0,
		TargetNs:       uint64(500 * time.Microsecond),
		TargetRateBps:  1_000_000_000,
		TargetMaxNs:    uint64(5 * time.Millisecond),
		DeadbandNs:     uint64(100 * time.Microsecond),
		BaseWindowNs:   uint64(10 * time.Second),
		IntervalNs:     uint64(5 * time.Millisecond),
		Mode:           ModeRobust,
		BetaQ10:        410, // 0.4
		MaxCutQ10:      512,
		RaiseQ10:       10, // 1 %
		MaxRaiseQ10:    256,
		RaiseAfter:     5,
		LossCutQ10:     256,
		CECutQ10:       256,
		BigCutQ10:      512,
		SmallCutQ10:    128,
	}
}
