// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"math"
	"slices"
	"testing"
)

var nan, inf = math.NaN(), math.Inf(1)

// same compares figures of which NaN is equal to NaN.
func same(a, b Series) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) })
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   Series
		want float64
	}{{Series{7}, 7}, {Series{9, 1}, 5}, {Series{3, 1, 100}, 3}, {Series{1, 100, 2, 4}, 3}, {nil, nan}, {Series{1, nan, 2}, nan}, {Series{1, 2, inf}, nan}} {
		before := slices.Clone(c.of)
		if got := c.of.Median(); !same(Series{got}, Series{c.want}) || !same(c.of, before) {
			t.Errorf("median of %v is %v, want %v", before, got, c.want)
		}
	}
}

func TestAround(t *testing.T) {
	numbers := func(n int) (s Series) {
		for i := range n {
			s = append(s, float64(n-i))
		}
		return s
	}
	for _, c := range []struct {
		of        Series
		low, high float64
	}{
		{numbers(1), 1, 1}, {numbers(2), 1, 2}, {numbers(3), 1, 3}, {numbers(4), 1, 4}, {numbers(5), 2, 4}, {numbers(9), 3, 7}, {numbers(101), 46, 56},
		{Series{2, 2, 2}, 2, 2}, {nil, nan, nan}, {Series{1, nan}, nan, nan}, {Series{1, 2, 3, 4, -inf}, nan, nan},
	} {
		if low, high := c.of.Around(); !same(Series{low, high}, Series{c.low, c.high}) {
			t.Errorf("%v: %v to %v, want %v to %v", c.of, low, high, c.low, c.high)
		}
	}
}

// Rounds are divided one by one, and a round without the other candidate is no number.
func TestOver(t *testing.T) {
	for _, c := range []struct{ a, b, want Series }{
		{Series{2, 9}, Series{4, 3}, Series{.5, 3}},
		{Series{2, 9}, Series{4}, Series{.5, nan}},
		{Series{2}, Series{4, 3}, Series{.5, nan}},
		{nil, nil, Series{}},
	} {
		if got := c.a.Over(c.b); !same(got, c.want) {
			t.Errorf("%v over %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

func TestMinus(t *testing.T) {
	if got, want := (Series{2, 9}).Minus(Series{4}), (Series{-2, nan}); !same(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestSpan(t *testing.T) {
	if got := (Series{2, 1, 3}).Scale(2).Span("%.1f"); got != "2.0 to 6.0" {
		t.Error(got)
	}
	if got := (Series{}).Span("%.1f"); got != "-" {
		t.Error(got)
	}
}
