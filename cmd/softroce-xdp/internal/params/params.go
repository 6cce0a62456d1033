// SPDX-License-Identifier: Apache-2.0

// Package params names the policy's parameters for people: `policy show` and
// `policy set`, the configuration file and the manual all read this one list.
package params

import (
	"fmt"
	"slices"
	"strings"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/units"
)

// Modes of the policy in the order of their numbers (bpf/lib/policy.h).
var Modes = []string{"robust", "literal", "fixed"}

// A Param is one parameter of the four-case policy (S1.6).
type Param struct {
	Name string // as a flag and as a key of the configuration file
	Type string // what its value is: rate, time, share or word
	Text string

	get func(*bpf.PolicyParams) string
	set func(*bpf.PolicyParams, string) error
}

// Get writes the value with its unit.
func (p Param) Get(v *bpf.PolicyParams) string { return p.get(v) }

// Check checks the form of a value.
func (p Param) Check(s string) error { return p.set(&bpf.PolicyParams{}, s) }

// Set reads the value. It checks the form; fourcase.Params.Validate checks that
// the values fit one another.
func (p Param) Set(v *bpf.PolicyParams, s string) error {
	if err := p.set(v, s); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}

// All parameters.
var All = []Param{
	{Name: "mode", Type: "word",
		Text: "robust judges by the excess over each direction's baseline, literal by the words of S1.6 (for equal clocks only), fixed leaves every rate as it is",
		get:  func(v *bpf.PolicyParams) string { return ModeName(v.Mode) },
		set: func(v *bpf.PolicyParams, s string) error {
			i := slices.Index(Modes, s)
			if i < 0 {
				return fmt.Errorf("no mode %q: choose %s", s, strings.Join(Modes, ", "))
			}
			v.Mode = uint32(i)
			return nil
		}},
	rate("min-rate", "no destination's rate falls below this", func(v *bpf.PolicyParams) *uint64 { return &v.MinRateBps }),
	rate("max-rate", "no destination's rate rises above this; the link's rate", func(v *bpf.PolicyParams) *uint64 { return &v.MaxRateBps }),
	span("target", "queueing delay that the policy aims at (D)", func(v *bpf.PolicyParams) *uint64 { return &v.TargetNs }),
	span("deadband", "changes of a time below this are no change (e)", func(v *bpf.PolicyParams) *uint64 { return &v.DeadbandNs }),
	span("base-window", "how long the least time seen stays the baseline", func(v *bpf.PolicyParams) *uint64 { return &v.BaseWindowNs }),
	span("interval", "least time between two decisions for a destination", func(v *bpf.PolicyParams) *uint64 { return &v.IntervalNs }),
	share("beta", "robust: weight of the proportional cut", func(v *bpf.PolicyParams) *uint32 { return &v.BetaQ10 }),
	share("max-cut", "robust: most that one decision takes off a rate", func(v *bpf.PolicyParams) *uint32 { return &v.MaxCutQ10 }),
	share("raise", "one raise, of the rate", func(v *bpf.PolicyParams) *uint32 { return &v.RaiseQ10 }),
	share("big-cut", "literal: the cut of case 1", func(v *bpf.PolicyParams) *uint32 { return &v.BigCutQ10 }),
	share("small-cut", "literal: the cut of case 2", func(v *bpf.PolicyParams) *uint32 { return &v.SmallCutQ10 }),
}

// Named finds a parameter.
func Named(name string) (Param, error) {
	for _, p := range All {
		if p.Name == name {
			return p, nil
		}
	}
	var names []string
	for _, p := range All {
		names = append(names, p.Name)
	}
	return Param{}, fmt.Errorf("no policy parameter %q: choose %s", name, strings.Join(names, ", "))
}

// ModeName names a mode by its number.
func ModeName(m uint32) string {
	if int(m) < len(Modes) {
		return Modes[m]
	}
	return fmt.Sprintf("mode %d", m)
}

// Validate checks the values against one another.
func Validate(v *bpf.PolicyParams) error { return bpf.ParamsAs[fourcase.Params](v).Validate() }

func rate(name, text string, field func(*bpf.PolicyParams) *uint64) Param {
	return Param{Name: name, Type: "rate", Text: text,
		get: func(v *bpf.PolicyParams) string { return units.Rate(*field(v)) },
		set: func(v *bpf.PolicyParams, s string) error { return assign(field(v), s, units.ParseRate) }}
}

func span(name, text string, field func(*bpf.PolicyParams) *uint64) Param {
	return Param{Name: name, Type: "time", Text: text,
		get: func(v *bpf.PolicyParams) string { return units.Nanos(int64(*field(v))) },
		set: func(v *bpf.PolicyParams, s string) error { return assign(field(v), s, units.ParseNanos) }}
}

func share(name, text string, field func(*bpf.PolicyParams) *uint32) Param {
	return Param{Name: name, Type: "share", Text: text,
		get: func(v *bpf.PolicyParams) string { return units.Share(*field(v)) },
		set: func(v *bpf.PolicyParams, s string) error { return assign(field(v), s, units.ParseShare) }}
}

func assign[T any](dst *T, s string, parse func(string) (T, error)) error {
	v, err := parse(s)
	if err == nil {
		*dst = v
	}
	return err
}
