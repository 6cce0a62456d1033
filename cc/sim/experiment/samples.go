// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"slices"

	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// FromSamples works out the figures of a run from its samples alone, so that a run
// that was not simulated can be compared with one that was. Queueing delay is that at
// the moments of sampling, not that of every packet. flows are in the order of
// Series.FlowBps; their Bps and Jain are filled in. loss is a share.
func FromSamples(s *scenario.Scenario, scheme string, flows []FlowRate, series *Series, loss float64) *Result {
	m := s.Measure
	from, _ := slices.BinarySearch(series.AtNs, int64(m.From)+1)
	to, _ := slices.BinarySearch(series.AtNs, int64(m.To)+1)
	r := &Result{Scenario: s.Name, Scheme: scheme, Values: map[string]float64{"loss": loss}, Series: series}
	endless := s.Endless()
	var fair []float64
	counts := make([]bool, len(flows))
	for i, f := range flows {
		f.Bps = series.mean(series.FlowBps[i], from, to)
		f.Jain = endless[i].Start <= m.From
		if f.Jain {
			counts[i] = true
			fair = append(fair, f.Bps)
		}
		r.Flows = append(r.Flows, f)
	}
	r.Values["jain"] = sim.Jain(fair)
	if len(series.Utilisation) > 0 {
		queue := slices.Sorted(slices.Values(series.QueueNs[from:to]))
		r.Values["utilisation"] = series.mean(series.Utilisation, from, to)
		r.Values["queue-p50"], r.Values["queue-p99"] = sim.Percentile(queue, .5), sim.Percentile(queue, .99)
		r.Values["convergence"] = series.convergence(m.Converge, counts)
	}
	return r
}

// mean is that of samples from up to before to, each for as long as it took.
func (s *Series) mean(values []float64, from, to int) float64 {
	sum, span := 0.0, 0.0
	for i := from; i < to; i++ {
		took := float64(s.AtNs[i])
		if i > 0 {
			took -= float64(s.AtNs[i-1])
		}
		sum += values[i] * took
		span += took
	}
	return sum / max(1, span)
}
