// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"slices"
)

// riseMemory is the number of periods whose rises count.
const riseMemory = 96

// riseQuantiles are the quantiles of the rises that are inputs of the network.
var riseQuantiles = [...]float64{0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 1}

// rises are the changes of the need over 1 to horizon periods, in ascending order and in pages: by how much the
// need of a node has exceeded, within the horizon, what it was. They follow from the needs of the history, so
// they are not stored.
type rises struct {
	sorted []float64
}

func newRises(horizon int) rises {
	return rises{make([]float64, 0, (riseMemory+1)*horizon)}
}

// add takes the newest need of a history.
func (r *rises) add(h *History) {
	r.eachOf(h, 0, func(v float64) {
		at, _ := slices.BinarySearch(r.sorted, v)
		r.sorted = slices.Insert(r.sorted, at, v)
	})
	r.eachOf(h, riseMemory, func(v float64) {
		if at, ok := slices.BinarySearch(r.sorted, v); ok {
			r.sorted = slices.Delete(r.sorted, at, at+1)
		}
	})
}

// eachOf calls do with the rises that end some periods ago.
func (r *rises) eachOf(h *History, age int, do func(float64)) {
	for k := 1; k <= len(h.s.Centres); k++ {
		if uint64(age+k) < h.s.Count {
			do(h.back(&h.s.Need, age) - h.back(&h.s.Need, age+k))
		}
	}
}

// quantile is between the smallest (0) and the largest rise (1), and 0 if there is none.
func (r *rises) quantile(q float64) float64 {
	if len(r.sorted) == 0 {
		return 0
	}
	at := q * float64(len(r.sorted)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(r.sorted)-1)
	return r.sorted[low] + (at-float64(low))*(r.sorted[high]-r.sorted[low])
}
