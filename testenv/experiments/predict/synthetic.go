// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/rand/v2"

	"github.com/softroce/softroce-xdp/mempool/predict"
)

// level is the mean demand of a trace, in pages.
const level = 1 << 20

// Traces returns the demands and utilisations of synthetic nodes. Each is the sum of one to three parts
// that are typical of memory: a level with noise, sudden changes, growth that ends in a drop, a
// period, and jobs that come and go.
func Traces(seed uint64, nodes, periods int) [][]predict.Sample {
	all := make([][]predict.Sample, nodes)
	for i := range all {
		all[i] = node(rand.New(rand.NewPCG(seed, uint64(i))), periods)
	}
	return all
}

// part is a component of a demand: its value in the next period, relative to the level.
type part func() float64

func node(r *rand.Rand, periods int) []predict.Sample {
	kinds := []func(*rand.Rand) part{steady, jumps, sawtooth, periodic, jobs}
	parts := []part{steady(r)}
	for range r.IntN(3) {
		parts = append(parts, kinds[r.IntN(len(kinds))](r))
	}
	noise := logUniform(r, 1e-4, 0.03)
	lead := r.IntN(3) // by how many periods the utilisation is ahead of the demand
	base := 0.1 + 0.6*r.Float64()
	follows := r.Float64() * 0.6
	values := make([]float64, periods+lead)
	for i := range values {
		v := 0.0
		for _, p := range parts {
			v += p()
		}
		values[i] = max(0, v*(1+noise*r.NormFloat64()))
	}
	samples := make([]predict.Sample, periods)
	walk := 0.0
	for i := range samples {
		walk = 0.8*walk + 0.05*r.NormFloat64()
		change := (values[i+lead] - values[max(0, i+lead-1)]) / (values[i] + 0.01)
		use := max(0, min(base+walk+follows*max(-1, min(5*change, 1)), 1))
		const leased = 1 << 16
		samples[i] = predict.Sample{Demand: uint64(level * values[i]), Touched: uint64(use * leased), Leased: leased}
	}
	return samples
}

func logUniform(r *rand.Rand, low, high float64) float64 {
	return low * math.Exp(r.Float64()*math.Log(high/low))
}

// steady is a level that drifts.
func steady(r *rand.Rand) part {
	v, drift, back := 0.2+r.Float64(), logUniform(r, 1e-5, 1e-2), 0.9+0.1*r.Float64()
	mean := v
	return func() float64 {
		v = mean + back*(v-mean) + drift*r.NormFloat64()
		return v
	}
}

// jumps is a level that changes suddenly.
func jumps(r *rand.Rand) part {
	v, often, size := r.Float64(), logUniform(r, 0.005, 0.15), logUniform(r, 0.02, 0.8)
	return func() float64 {
		if r.Float64() < often {
			v = max(0, min(v*math.Exp(size*r.NormFloat64()), 4))
		}
		return v
	}
}

// sawtooth grows and drops: a cache, or a heap with a garbage collector.
func sawtooth(r *rand.Rand) part {
	length, height, v := 4+r.IntN(60), logUniform(r, 0.02, 0.6), 0.0
	return func() float64 {
		v += height / float64(length) * (1 + 0.3*r.NormFloat64())
		if v > height {
			v = 0
		}
		return v
	}
}

// periodic is a day, or a shorter schedule.
func periodic(r *rand.Rand) part {
	length, height, at := logUniform(r, 8, 288), logUniform(r, 0.02, 0.5), r.Float64()
	return func() float64 {
		at += 1 / length
		return height * (1 + math.Sin(2*math.Pi*at))
	}
}

// jobs come and go; each takes memory over some periods and gives it back at once.
func jobs(r *rand.Rand) part {
	often, size, grows := logUniform(r, 0.01, 0.3), logUniform(r, 0.02, 0.4), 1+r.IntN(6)
	length := logUniform(r, 2, 40)
	type job struct {
		age, end int
		size     float64
	}
	var running []job
	return func() float64 {
		if r.Float64() < often && len(running) < 20 {
			running = append(running, job{0, 1 + int(r.ExpFloat64()*length), size * r.ExpFloat64()})
		}
		sum, kept := 0.0, running[:0]
		for _, j := range running {
			if j.age++; j.age <= j.end {
				sum += j.size * float64(min(j.age, grows)) / float64(grows)
				kept = append(kept, j)
			}
		}
		running = kept
		return sum
	}
}
