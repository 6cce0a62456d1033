// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"slices"

	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// A run has converged when utilisation and fairness, over windows of ten samples,
// stay above these until the end.
const (
	convergedUtilisation = 0.9
	convergedJain        = 0.95
	window               = 10 // samples
)

// convergence is the time from a moment until the run has converged, in
// nanoseconds; Never if it does not. fair says which flows count for fairness.
func (s *Series) convergence(from scenario.Time, fair []bool) float64 {
	first, _ := slices.BinarySearch(s.AtNs, int64(from)+1)
	last := len(s.AtNs) - window
	if first > last {
		return Never
	}
	at := last
	for at >= first && s.windowHolds(at, fair) {
		at--
	}
	if at == last {
		return Never
	}
	// The window after the last one that failed; its first sample began at the
	// sample before it.
	begin := int64(from)
	if at >= 0 {
		begin = max(begin, s.AtNs[at])
	}
	return float64(begin - int64(from))
}

func (s *Series) windowHolds(at int, fair []bool) bool {
	sum := 0.0
	for _, u := range s.Utilisation[at : at+window] {
		sum += u
	}
	if len(s.Utilisation) > 0 && sum/window < convergedUtilisation {
		return false
	}
	var rates []float64
	for i, flow := range s.FlowBps {
		if !fair[i] {
			continue
		}
		sum := 0.0
		for _, bps := range flow[at : at+window] {
			sum += bps
		}
		rates = append(rates, sum)
	}
	return len(rates) == 0 || sim.Jain(rates) >= convergedJain
}
