// SPDX-License-Identifier: Apache-2.0

// Package policy has the list of the policy parameters, and the flags and the text of the commands that show and set
// them, on an interface or on a card.
package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
)

// Policy are the parameters of all policies of an interface.
type Policy struct {
	fourcase.Params                 // S1.6
	Priority        priority.Params // S4.5
	WindowOff       bool            // config.window_off
}

// A Param is one parameter of a policy.
type Param struct {
	Name     string // name as a flag and as a key of the configuration file
	Register string // name in struct policy_params, behind a dot in struct priority_params, or window_off
	Type     string // type of its value: rate, time, share, number or word
	Text     string

	get func(*Policy) string
	set func(*Policy, string) error
}

// Get writes the value with its unit.
func (p Param) Get(v *Policy) string { return p.get(v) }

// Check checks the form of a value.
func (p Param) Check(s string) error { return p.set(&Policy{}, s) }

// Set reads the value. It checks the form; Validate checks that the values fit
// one another.
func (p Param) Set(v *Policy, s string) error {
	if err := p.set(v, s); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}

type params = Policy

// All parameters, in the order of struct policy_params but the mode first.
var All = []Param{
	{Name: "mode", Register: "mode", Type: "word",
		Text: "robust uses the queueing delay of each direction; literal follows the words of S1.6, for equal clocks only; fixed changes no rate",
		get:  func(v *params) string { return v.Mode.String() },
		set:  func(v *params, s string) error { return assign(&v.Mode, s, fourcase.ParseMode) }},
	rate("min-rate", "min_rate_bps", "no destination's rate falls below this", func(v *params) *uint64 { return &v.MinRateBps }),
	rate("max-rate", "max_rate_bps", "no destination's rate rises above this; the link's rate unless set", func(v *params) *uint64 { return &v.MaxRateBps }),
	rate("initial-rate", "initial_rate_bps", "first rate of a destination; 0 for max-rate", func(v *params) *uint64 { return &v.InitialRateBps }),
	span("target", "target_ns", "target of the queueing delay (D), for a destination at target-rate", func(v *params) *uint64 { return &v.TargetNs }),
	rate("target-rate", "target_rate_bps", "D is larger below this rate and smaller above it, as 1/sqrt(rate)", func(v *params) *uint64 { return &v.TargetRateBps }),
	share("target-steep", "target_steep_q10", "second bound of D: this part of target at target-rate, growing as 1/rate^2; 0 for off", func(v *params) *uint32 { return &v.TargetSteepQ10 }),
	span("target-max", "target_max_ns", "upper bound of D", func(v *params) *uint64 { return &v.TargetMaxNs }),
	span("deadband", "deadband_ns", "changes of a delay below this count as no change (e)", func(v *params) *uint64 { return &v.DeadbandNs }),
	span("base-window", "base_window_ns", "period of the minimums that are the base delay", func(v *params) *uint64 { return &v.BaseWindowNs }),
	span("interval", "interval_ns", "shortest time between two decisions for a destination", func(v *params) *uint64 { return &v.IntervalNs }),
	span("literal-deadband", "literal_deadband_ns", "literal: changes below this are no change; 0 for the words of S1.6", func(v *params) *uint64 { return &v.LiteralDeadbandNs }),
	share("beta", "beta_q10", "gain of the proportional decrease", func(v *params) *uint32 { return &v.BetaQ10 }),
	share("max-cut", "max_cut_q10", "largest decrease of one decision", func(v *params) *uint32 { return &v.MaxCutQ10 }),
	share("raise", "raise_q10", "one increase at target-rate, of the rate", func(v *params) *uint32 { return &v.RaiseQ10 }),
	share("max-raise", "max_raise_q10", "largest increase of one decision, of the rate", func(v *params) *uint32 { return &v.MaxRaiseQ10 }),
	{Name: "raise-after", Register: "raise_after", Type: "number", Text: "increases in a row before they accelerate",
		get: func(v *params) string { return strconv.FormatUint(uint64(v.RaiseAfter), 10) },
		set: func(v *params, s string) error { return assign(&v.RaiseAfter, s, parseNumber) }},
	share("loss-cut", "loss_cut_q10", "cut on loss", func(v *params) *uint32 { return &v.LossCutQ10 }),
	share("ce-cut", "ce_cut_q10", "decrease if every echo reports CE", func(v *params) *uint32 { return &v.CECutQ10 }),
	share("big-cut", "big_cut_q10", "literal: the decrease of case 1", func(v *params) *uint32 { return &v.BigCutQ10 }),
	share("small-cut", "small_cut_q10", "literal: the decrease of case 2", func(v *params) *uint32 { return &v.SmallCutQ10 }),
	{Name: "window", Register: "window_off", Type: "word",
		Text: "on: the engine has no more bytes in flight to a destination than its rate needs at the target delay; off: rates alone",
		get: func(v *params) string {
			if v.WindowOff {
				return "off"
			}
			return "on"
		},
		set: func(v *params, s string) error { return assign(&v.WindowOff, s, parseOff) }},
	{Name: "priority", Register: "priority.mode", Type: "word",
		Text: "on: levels, minimums and maximums of the node file apply (S4.5); off: the four-case policy alone",
		get:  func(v *params) string { return v.Priority.Mode.String() },
		set:  func(v *params, s string) error { return assign(&v.Priority.Mode, s, priority.ParseMode) }},
	rate("priority-capacity", "priority.capacity_bps", "capacity that the nodes with priorities share; 0 for the link's rate",
		func(v *params) *uint64 { return &v.Priority.CapacityBps }),
}

// Named finds a parameter.
func Named(name string) (Param, error) {
	var names []string
	for _, p := range All {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Param{}, fmt.Errorf("no policy parameter %q: choose %s", name, strings.Join(names, ", "))
}

func rate(name, register, text string, field func(*params) *uint64) Param {
	return Param{Name: name, Register: register, Type: "rate", Text: text,
		get: func(v *params) string { return cli.Rate(*field(v)) },
		set: func(v *params, s string) error { return assign(field(v), s, cli.ParseRateOrZero) }}
}

func span(name, register, text string, field func(*params) *uint64) Param {
	return Param{Name: name, Register: register, Type: "time", Text: text,
		get: func(v *params) string { return cli.Nanos(int64(*field(v))) },
		set: func(v *params, s string) error { return assign(field(v), s, cli.ParseNanos) }}
}

func share(name, register, text string, field func(*params) *uint32) Param {
	return Param{Name: name, Register: register, Type: "share", Text: text,
		get: func(v *params) string { return cli.Share(*field(v)) },
		set: func(v *params, s string) error { return assign(field(v), s, cli.ParseShare) }}
}

func parseOff(s string) (off bool, err error) {
	switch s {
	case "on", "off":
		return s == "off", nil
	}
	return false, fmt.Errorf("%q is neither on nor off", s)
}

func parseNumber(s string) (uint32, error) {
	v, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no whole number from 0 to %d", s, uint32(math.MaxUint32))
	}
	return uint32(v), nil
}

func assign[T any](dst *T, s string, parse func(string) (T, error)) error {
	v, err := parse(s)
	if err == nil {
		*dst = v
	}
	return err
}
