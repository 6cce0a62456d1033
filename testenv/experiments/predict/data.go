// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/softroce/softroce-xdp/mempool/predict"
)

// warmup is the number of periods of a trace before its first decision that counts.
const warmup = 24

// Parts of a split.
const (
	training = iota
	validation
	test
	parts
)

// splitByJob puts all traces of a job into one part, by a seeded hash: 60, 20 and 20 %.
func splitByJob(traces []trace, seed uint64) (sets [parts][]trace) {
	for _, t := range traces {
		f := fnv.New64a()
		fmt.Fprintf(f, "%d %s", seed, t.job)
		part := training
		if r := rand.New(rand.NewPCG(f.Sum64(), 0)).Float64(); r > 0.8 {
			part = test
		} else if r > 0.6 {
			part = validation
		}
		sets[part] = append(sets[part], t)
	}
	return sets
}

// withoutTest leaves the test part out: the validation part is compared, and a quarter of the jobs of the
// training part is for margins. Settings are chosen with this.
func withoutTest(sets [parts][]trace, seed uint64) (inner [parts][]trace) {
	inner[test] = sets[validation]
	for _, t := range sets[training] {
		f := fnv.New64a()
		fmt.Fprintf(f, "inner %d %s", seed, t.job)
		part := training
		if r := rand.New(rand.NewPCG(f.Sum64(), 1)).Float64(); r > 0.75 {
			part = validation
		}
		inner[part] = append(inner[part], t)
	}
	return inner
}

// splitByDay trains with days 1 to 6, and tests with days 9 and 10.
func splitByDay(traces []trace) (sets [parts][]trace) {
	for _, t := range traces {
		part := training
		if t.day > 8 {
			part = test
		} else if t.day > 6 {
			part = validation
		}
		sets[part] = append(sets[part], t)
	}
	return sets
}

// score is the under- and over-allocation, as parts of the need.
type score struct{ under, over float64 }

// sums adds what allocations miss and waste.
type sums struct{ under, over, need float64 }

func (s *sums) add(allocation float64, needs []float64) {
	for _, need := range needs {
		s.need += need
		if need > allocation {
			s.under += need - allocation
		} else {
			s.over += allocation - need
		}
	}
}

func (s *sums) score() score { return score{s.under / s.need, s.over / s.need} }

// curve is the score of a method as a function of its knob: a margin or a quantile. Over-allocation
// grows with the knob.
type curve struct {
	low, high float64
	at        func(knob float64) score
}

// fit is the knob that gives an over-allocation.
func (c curve) fit(over float64) float64 {
	low, high := c.low, c.high
	for range 12 {
		mid := (low + high) / 2
		if c.at(mid).over > over {
			high = mid
		} else {
			low = mid
		}
	}
	return (low + high) / 2
}

// equal is the under-allocation at an over-allocation, interpolated between two knobs next to it.
func (c curve) equal(over float64) float64 {
	knob := c.fit(over)
	step := (c.high - c.low) / 500
	a, b := c.at(knob-step), c.at(knob+step)
	if b.over <= a.over {
		return a.under
	}
	return a.under + (b.under-a.under)*(over-a.over)/(b.over-a.over)
}

// decisions are the predictions of one simple predictor for a set of traces.
type decisions struct {
	centre, spread, err, needs []float64 // predictions per decision; needs has horizon of them per decision
	horizon                    int
}

// Units of the margin of a simple predictor.
const (
	bySpread     = iota // mean change of the need
	byError             // mean error of the predictor
	byPrediction        // the prediction itself
	units
)

var unitNames = [units]string{"mean change", "mean error", "prediction"}

// collect runs a simple predictor over traces.
func collect(traces []trace, horizon int, newSimple func(horizon int) predict.Simple) *decisions {
	d := &decisions{horizon: horizon}
	for _, t := range traces {
		history, p := predict.NewHistory(horizon), newSimple(horizon)
		var past []float64
		err, weight := 0.0, 0.0
		for at := 0; at+horizon < len(t.need); at++ {
			history.Observe(t.need[at], 0)
			p.Observe(t.need[at])
			past = append(past, p.Predict())
			if at >= horizon {
				miss := 0.0
				for _, v := range t.need[at-horizon+1 : at+1] {
					miss += math.Abs(v-past[at-horizon]) / float64(horizon)
				}
				err += 0.05 * (miss - err)
				weight += 0.05 * (1 - weight)
			}
			if at < warmup {
				continue
			}
			d.centre = append(d.centre, past[at])
			d.spread = append(d.spread, history.Spread())
			d.err = append(d.err, err/weight+1e-3*t.need[at])
			d.needs = append(d.needs, t.need[at+1:at+1+horizon]...)
		}
	}
	return d
}

// curve is the score by the margin, in one of the units.
func (d *decisions) curve(unit int) curve {
	return curve{-15, 60, func(margin float64) score {
		if unit == byPrediction {
			margin /= 50
		}
		var s sums
		for i, centre := range d.centre {
			by := centre
			switch unit {
			case bySpread:
				by = d.spread[i]
			case byError:
				by = d.err[i]
			}
			s.add(max(0, centre+margin*by), d.needs[i*d.horizon:(i+1)*d.horizon])
		}
		return s.score()
	}}
}
