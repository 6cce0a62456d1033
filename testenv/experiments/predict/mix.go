// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"

	"github.com/softroce/softroce-xdp/mempool/predict"
)

// mixtures returns traces of machines that each run two of the jobs: sums of two traces of different
// jobs. The second is scaled to a random part of the first one's level, so that either may be the larger.
func mixtures(traces []trace, count int, seed uint64) [][]predict.Sample {
	r := rand.New(rand.NewPCG(seed, 0x6d78))
	all := make([][]predict.Sample, 0, count)
	for len(all) < count {
		a, b := &traces[r.IntN(len(traces))], &traces[r.IntN(len(traces))]
		if a.job == b.job {
			continue
		}
		scale := (0.2 + 0.8*r.Float64()) * mean(a.need) / mean(b.need)
		mixed := make([]predict.Sample, min(len(a.samples), len(b.samples)))
		for i := range mixed {
			x, y := a.samples[i], b.samples[i]
			weight := scale / (1 + scale)
			mixed[i] = predict.Sample{
				Demand:  x.Demand + uint64(scale*float64(y.Demand)),
				Touched: uint64((1-weight)*float64(x.Touched) + weight*float64(y.Touched)),
				Leased:  x.Leased,
			}
		}
		all = append(all, mixed)
	}
	return all
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
