// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"math/rand/v2"
	"testing"
)

// predictAfter is what a predictor says after some needs.
func predictAfter(p Simple, needs ...float64) float64 {
	for _, n := range needs {
		p.Observe(n)
	}
	return p.Predict()
}

func TestSimplePredictors(t *testing.T) {
	ramp := make([]float64, 200)
	for i := range ramp {
		ramp[i] = 1000 + 10*float64(i)
	}
	last := ramp[len(ramp)-1]
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"last", predictAfter(NewEWMA(1), 3, 9, 4), 4},
		{"ewma, first need", predictAfter(NewEWMA(0.5), 8), 8},
		{"ewma", predictAfter(NewEWMA(0.5), 0, 8), 16.0 / 3},
		{"window maximum", predictAfter(NewWindowMax(2), 9, 3, 4), 4},
		{"window maximum, few needs", predictAfter(NewWindowMax(5), 9, 3), 9},
		{"holt, constant", predictAfter(NewHolt(0.5, 0.2, 3), 7, 7, 7), 7},
		{"linear, constant", predictAfter(NewLinear(3), 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7), 7},
		{"linear, ramp: the mean of the next three", predictAfter(NewLinear(3), ramp...), last + 20},
		{"nothing", NewLinear(3).Predict() + NewEWMA(0.5).Predict() + NewHolt(0.5, 0.5, 1).Predict() + NewWindowMax(1).Predict(), 0},
	} {
		if math.Abs(c.got-c.want) > 0.02*c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	if got := predictAfter(NewHolt(0.5, 0.2, 3), ramp...); got <= last {
		t.Errorf("holt on a ramp that is at %v: %v", last, got)
	}
}

// The linear predictor finds the law of a series whose changes follow from the last one.
func TestLinearLearns(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	p, last := NewLinear(1), NewEWMA(1)
	x, change := 10_000.0, 0.0
	errLinear, errLast := 0.0, 0.0
	for i := range 3000 {
		change = 0.8*change + r.NormFloat64()*10
		x = max(1000, x+change)
		if i > 500 {
			errLinear += math.Abs(x - p.Predict())
			errLast += math.Abs(x - last.Predict())
		}
		p.Observe(x)
		last.Observe(x)
	}
	if errLinear > 0.75*errLast { // the noise alone is 0.6 of the change
		t.Errorf("error %v, that of the newest need is %v", errLinear, errLast)
	}
}

// A change of the unit changes nothing else: inputs are equal, predictions scale.
func TestUnitDoesNotMatter(t *testing.T) {
	a, b := NewHistory(3), NewHistory(3)
	var x, y [Inputs]float64
	for _, d := range wave(9, 300) {
		a.Observe(float64(d), 0.5)
		b.Observe(float64(d)*1024, 0.5)
		a.Fill(x[:], 0.9)
		b.Fill(y[:], 0.9)
		for i := range x {
			if math.Abs(x[i]-y[i]) > 1e-6 {
				t.Fatalf("input %d is %v, and %v in another unit", i, x[i], y[i])
			}
		}
	}
}

// Inputs and outputs of a network stay in their bounds, whatever a restored history makes of them.
func TestBounded(t *testing.T) {
	for _, c := range [][2]float64{{1e9, maxInput}, {-1e9, -maxInput}, {math.Inf(1), maxInput}, {math.NaN(), 0}, {3, 3}} {
		if got := bounded(c[0]); got != c[1] {
			t.Errorf("bounded(%v) is %v, want %v", c[0], got, c[1])
		}
	}
}
