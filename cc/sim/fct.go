// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"slices"
)

// Bucket is the slowdowns of the flows of some sizes.
type Bucket struct {
	Above, UpTo         int64 // payload: Above < size <= UpTo
	Flows, Unfinished   int
	Mean, P50, P95, P99 float64
}

// Slowdowns sorts flows into buckets that end at the given sizes, and a last one
// without an end. Unfinished flows are counted and have no slowdown.
func Slowdowns(flows []*Flow, sizes []int64) []Bucket {
	out := make([]Bucket, len(sizes)+1)
	values := make([][]float64, len(out))
	for i := range out {
		out[i].UpTo = math.MaxInt64
		if i < len(sizes) {
			out[i].UpTo = sizes[i]
		}
		if i > 0 {
			out[i].Above = sizes[i-1]
		}
	}
	for _, f := range flows {
		i, _ := slices.BinarySearch(sizes, f.Size)
		out[i].Flows++
		if f.EndNs == 0 {
			out[i].Unfinished++
			continue
		}
		values[i] = append(values[i], f.Slowdown())
	}
	for i, v := range values {
		slices.Sort(v)
		b := &out[i]
		b.Mean, b.P50, b.P95, b.P99 = mean(v), Percentile(v, 0.5), Percentile(v, 0.95), Percentile(v, 0.99)
	}
	return out
}

// Percentile of sorted values by the nearest rank, 0 without values.
func Percentile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

func mean(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += x
	}
	return ratio(sum, float64(len(v)))
}
