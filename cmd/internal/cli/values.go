// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// The types of flags (pflag.Value). Each refuses a bad value at once, so that the
// error names the flag, or the line of the configuration file.

// Choice is one of several words.
type Choice struct {
	Value string
	Of    []string
}

func (c *Choice) String() string { return c.Value }
func (c *Choice) Type() string   { return "word" }
func (c *Choice) Set(s string) error {
	if !slices.Contains(c.Of, s) {
		return fmt.Errorf("choose one of %s", strings.Join(c.Of, ", "))
	}
	c.Value = s
	return nil
}

// choiceVar is a choice of type T that is stored in a variable.
type choiceVar[T ~string] struct {
	dst *T
	of  []T
}

// WordVar makes a flag of one of several words.
func WordVar[T ~string](dst *T, of []T) pflag.Value { return choiceVar[T]{dst, of} }

func (c choiceVar[T]) String() string { return string(*c.dst) }
func (c choiceVar[T]) Type() string   { return "word" }
func (c choiceVar[T]) Set(s string) error {
	w := Choice{Of: wordsOf(c.of)}
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

// RateVar makes a flag of a rate.
func RateVar(dst *uint64) pflag.Value { return rateVar{dst} }

func (r rateVar) Type() string { return "rate" }
func (r rateVar) String() string {
	if r.dst == nil || *r.dst == 0 {
		return ""
	}
	return strconv.FormatUint(*r.dst, 10)
}
func (r rateVar) Set(s string) (err error) {
	v, err := ParseRate(s)
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

// CountVar makes a flag of a number from min to max.
func CountVar(dst *uint32, min, max uint32) pflag.Value { return countVar{dst, min, max} }

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

// BigVar makes a flag of a number of at least min.
func BigVar(dst *uint64, min uint64) pflag.Value { return bigVar{dst, min} }

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

// listOf is several values with commas between them; the flag may be repeated.
type listOf[T comparable] struct {
	dst   *[]T
	what  string // one of them
	parse func(string) (T, error)
	given *bool // dst holds what the user gave, and not the default
}

// ListVar makes a flag of a list, which holds its default.
func ListVar[T comparable](dst *[]T, what string, parse func(string) (T, error)) pflag.Value {
	return listOf[T]{dst, what, parse, new(bool)}
}

func (l listOf[T]) Type() string { return "list" }
func (l listOf[T]) String() string {
	if l.dst == nil {
		return ""
	}
	var all []string
	for _, v := range *l.dst {
		all = append(all, fmt.Sprint(v))
	}
	return strings.Join(all, ",")
}
func (l listOf[T]) Set(s string) error {
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

// OneWord returns an item of a list unchanged.
func OneWord(s string) (string, error) { return s, nil }

// spanVar is a time within bounds.
type spanVar struct {
	dst      *time.Duration
	min, max time.Duration
}

// SpanVar makes a flag of a time from min to max.
func SpanVar(dst *time.Duration, min, max time.Duration) pflag.Value { return spanVar{dst, min, max} }

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

// DirVar makes a flag of a directory.
func DirVar(dst *string) pflag.Value { return dirVar{dst} }

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
