// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/params"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/units"
	"github.com/softroce/softroce-xdp/loader"
)

// The types of flags (pflag.Value). Each refuses a bad value at once, so that the
// error names the flag, or the line of the configuration file.

// choice is one of several words.
type choice struct {
	value string
	of    []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return "word" }
func (c *choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		return fmt.Errorf("choose one of %s", strings.Join(c.of, ", "))
	}
	c.value = s
	return nil
}

// choiceVar is a choice of type T that is stored in a variable.
type choiceVar[T ~string] struct {
	dst *T
	of  []T
}

func (c choiceVar[T]) String() string { return string(*c.dst) }
func (c choiceVar[T]) Type() string   { return "word" }
func (c choiceVar[T]) Set(s string) error {
	w := choice{of: wordsOf(c.of)}
	if err := w.Set(s); err != nil {
		return err
	}
	*c.dst = T(s)
	return nil
}

func wordsOf[T ~string](list []T) (words []string) {
	for _, x := range list {
		words = append(words, string(x))
	}
	return words
}

// rateVar is a rate in bits per second; 0 stands for "not given".
type rateVar struct{ dst *uint64 }

func (r rateVar) Type() string { return "rate" }
func (r rateVar) String() string {
	if r.dst == nil || *r.dst == 0 {
		return ""
	}
	return strconv.FormatUint(*r.dst, 10)
}
func (r rateVar) Set(s string) (err error) {
	v, err := units.ParseRate(s)
	if err == nil {
		*r.dst = v
	}
	return err
}

// linkRateVar is a rate of a link, which has a lower bound.
type linkRateVar struct{ rateVar }

func (r linkRateVar) Set(s string) error {
	v, err := units.ParseRate(s)
	if err == nil {
		err = loader.CheckRate(v)
	}
	if err == nil {
		*r.dst = v
	}
	return err
}

// countVar is a number within bounds.
type countVar struct {
	dst      *uint32
	min, max uint32
}

func (c countVar) Type() string   { return "number" }
func (c countVar) String() string { return strconv.FormatUint(uint64(*c.dst), 10) }
func (c countVar) Set(s string) error {
	v, err := strconv.ParseUint(s, 10, 32)
	if err != nil || uint32(v) < c.min || uint32(v) > c.max {
		return fmt.Errorf("%q is not a number from %d to %d", s, c.min, c.max)
	}
	*c.dst = uint32(v)
	return nil
}

// bigVar is countVar for numbers that may be large.
type bigVar struct {
	dst *uint64
	min uint64
}

func (c bigVar) Type() string   { return "number" }
func (c bigVar) String() string { return strconv.FormatUint(*c.dst, 10) }
func (c bigVar) Set(s string) error {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil || v < c.min {
		return fmt.Errorf("%q is not a whole number of at least %d", s, c.min)
	}
	*c.dst = v
	return nil
}

// listVar is several values with commas between them; the flag may be repeated.
type listVar[T comparable] struct {
	dst   *[]T
	what  string // one of them
	parse func(string) (T, error)
	given *bool // dst holds what the user gave, and not the default
}

// newList makes a flag of a list, which holds its default.
func newList[T comparable](dst *[]T, what string, parse func(string) (T, error)) listVar[T] {
	return listVar[T]{dst, what, parse, new(bool)}
}

func (l listVar[T]) Type() string { return "list" }
func (l listVar[T]) String() string {
	if l.dst == nil {
		return ""
	}
	var all []string
	for _, v := range *l.dst {
		all = append(all, fmt.Sprint(v))
	}
	return strings.Join(all, ",")
}
func (l listVar[T]) Set(s string) error {
	if !*l.given {
		*l.dst, *l.given = nil, true
	}
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item == "" {
			return fmt.Errorf("%q lacks %s: write them with commas between", s, l.what)
		}
		v, err := l.parse(item)
		if err != nil {
			return err
		}
		if slices.Contains(*l.dst, v) {
			return fmt.Errorf("%s stands twice", item)
		}
		*l.dst = append(*l.dst, v)
	}
	return nil
}

// word returns an item of a list unchanged.
func word(s string) (string, error) { return s, nil }

// seed parses the seed of a simulation.
func seed(s string) (uint64, error) {
	var v uint64
	err := bigVar{&v, 0}.Set(s)
	return v, err
}

// spanVar is a time within bounds.
type spanVar struct {
	dst      *time.Duration
	min, max time.Duration
}

func (d spanVar) Type() string   { return "time" }
func (d spanVar) String() string { return d.dst.String() }
func (d spanVar) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil || v < d.min || v > d.max {
		return fmt.Errorf("%q is not a time from %v to %v, written as 500ms or 3s", s, d.min, d.max)
	}
	*d.dst = v
	return nil
}

// dirVar is the path of a directory, which need not exist.
type dirVar struct{ dst *string }

func (d dirVar) Type() string   { return "directory" }
func (d dirVar) String() string { return *d.dst }
func (d dirVar) Set(s string) error {
	if s == "" {
		return errors.New("the path of a directory is missing")
	}
	st, err := os.Stat(s)
	if errors.Is(err, unix.ENOTDIR) || err == nil && !st.IsDir() {
		return fmt.Errorf("%s is a file, or lies in one: name a directory", s)
	}
	*d.dst = s
	return nil
}

// policyVar is a list of policy parameters, written name=value.
type policyVar struct{ dst *[]string }

func (p policyVar) Type() string       { return "name=value" }
func (p policyVar) String() string     { return strings.Join(*p.dst, ",") }
func (p policyVar) GetSlice() []string { return *p.dst }
func (p policyVar) Set(s string) error {
	if err := setPolicy(&params.Policy{}, s); err != nil {
		return err
	}
	*p.dst = append(*p.dst, s)
	return nil
}

// Append and Replace make it a pflag.SliceValue.
func (p policyVar) Append(s string) error { return p.Set(s) }
func (p policyVar) Replace(all []string) error {
	*p.dst = nil
	for _, s := range all {
		if err := p.Set(s); err != nil {
			return err
		}
	}
	return nil
}

func setPolicy(dst *params.Policy, s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok {
		return fmt.Errorf("%q: write name=value, for example target=500us", s)
	}
	param, err := params.Named(strings.TrimSpace(name))
	if err != nil {
		return err
	}
	return param.Set(dst, strings.TrimSpace(value))
}
