// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"math"
	"strconv"
)

// scale maps values to pixels.
type scale struct {
	min, max float64 // values
	from, to float64 // pixels
	log      bool
}

func (s scale) at(v float64) float64 {
	v = min(max(v, s.min), s.max)
	low, high := s.min, s.max
	if s.log {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	return s.from + (v-low)/(high-low)*(s.to-s.from)
}

// ticks are round values of the scale, about n of them.
func (s scale) ticks(n int) (values []float64) {
	if s.log {
		return s.logTicks(n)
	}
	step := roundStep((s.max - s.min) / float64(n))
	for i := math.Ceil(s.min/step - 1e-9); i*step <= s.max+step*1e-9; i++ {
		values = append(values, i*step+0) // 0 is not -0
	}
	return values
}

// logTicks are 1, 2, 5, 10, 20 and so on, or powers of ten where that is too many.
func (s scale) logTicks(n int) (values []float64) {
	digits := []float64{1, 2, 5}
	if decades := math.Log10(s.max / s.min); 3*decades > float64(n)+1 {
		digits = digits[:1]
	}
	for e := math.Floor(math.Log10(s.min)); math.Pow(10, e) <= s.max; e++ {
		for _, d := range digits {
			if v := d * math.Pow(10, e); v >= s.min*.999 && v <= s.max*1.001 {
				values = append(values, v)
			}
		}
	}
	return values
}

// roundStep is the least of 1, 2, 5 times a power of ten that is not less.
func roundStep(v float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)))
	for _, digit := range []float64{1, 2, 5} {
		if digit*decade >= v*(1-1e-9) {
			return digit * decade
		}
	}
	return 10 * decade
}

// roundUp is a value not less than v at which an axis may end.
func roundUp(v float64) float64 {
	step := roundStep(v / 5)
	return math.Ceil(v/step-1e-9) * step
}

func label(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
