// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Series has the figures of one candidate, one for each round.
type Series []float64

// finite reports whether a figure is a number. The quotient of a figure and zero, for example, is none.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// measured reports whether there are figures, and all of them are numbers.
func (s Series) measured() bool {
	return len(s) > 0 && !slices.ContainsFunc(s, func(v float64) bool { return !finite(v) })
}

// Median of an even number is the mean of the two in the middle. It is NaN without figures, or if one is NaN or infinite.
func (s Series) Median() float64 {
	if !s.measured() {
		return math.NaN()
	}
	v, n := slices.Sorted(slices.Values(s)), len(s)
	return stat.Mean(v[(n-1)/2:n/2+1], nil)
}

// Around returns the figures √n/2 ranks below and above the median of n rounds, about one standard error of its rank:
// those of two to four rounds are the least and the largest, of five the second and the fourth. They are NaN if the
// median is.
func (s Series) Around() (low, high float64) {
	if !s.measured() {
		return math.NaN(), math.NaN()
	}
	v, n := slices.Sorted(slices.Values(s)), float64(len(s))
	i := max(0, int(math.Ceil((n-math.Sqrt(n))/2))-1)
	return v[i], v[len(v)-1-i]
}

// Span is the least and the largest.
func (s Series) Span(format string) string {
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf(format+" to "+format, slices.Min(s), slices.Max(s))
}

// Scale returns the figures in another unit.
func (s Series) Scale(by float64) Series {
	out := slices.Clone(s)
	for i := range out {
		out[i] *= by
	}
	return out
}

// Over divides round by round: what else the machine did hit both alike. A round that only one of both has gives NaN.
func (s Series) Over(other Series) Series {
	return s.with(other, func(a, b float64) float64 { return a / b })
}

// Minus subtracts like Over.
func (s Series) Minus(other Series) Series {
	return s.with(other, func(a, b float64) float64 { return a - b })
}

func (s Series) with(other Series, f func(a, b float64) float64) Series {
	out := make(Series, max(len(s), len(other)))
	for i := range out {
		out[i] = math.NaN()
		if i < min(len(s), len(other)) {
			out[i] = f(s[i], other[i])
		}
	}
	return out
}
