// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"fmt"
	"math"
	"slices"

	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// Result is what one run showed.
type Result struct {
	Scenario string `json:"scenario"`
	Scheme   string `json:"scheme"` // label of the scheme
	Seed     uint64 `json:"seed"`
	// Values has the figures of scenario.Metrics that were measured, by name:
	// shares as numbers, times in nanoseconds. Never is a time that did not come.
	Values map[string]float64 `json:"values"`
	// Flows are the flows without end, in the scenario's order.
	Flows []FlowRate `json:"flows,omitempty"`
	// Buckets are the messages by size.
	Buckets []Bucket `json:"buckets,omitempty"`
	// BDPBytes is the payload that fills the longest way for a base round trip.
	BDPBytes int64   `json:"bdp_bytes"`
	Cost     Cost    `json:"cost"`
	Series   *Series `json:"-"`
}

// Never is the value of a time that did not come, such as that of convergence. It
// is a number because JSON has no infinity.
const Never = 1e18

// FlowRate is what one flow got while the run was measured.
type FlowRate struct {
	Src  int     `json:"src"`
	Dst  int     `json:"dst"`
	Bps  float64 `json:"bps"`  // payload
	Jain bool    `json:"jain"` // counts for Jain's index: it was there all the time
}

// Bucket holds messages of similar size: over the bucket before, up to Bytes.
type Bucket struct {
	Bytes  int64   `json:"bytes"`
	Count  int     `json:"count"`
	P50    float64 `json:"slowdown_p50"`
	P95    float64 `json:"slowdown_p95"`
	P99    float64 `json:"slowdown_p99"`
	OneRTT float64 `json:"one_rtt"` // share that completed within one base round trip beyond the time alone
}

// Cost is what the run took, in units that do not depend on the machine.
type Cost struct {
	Packets uint64 `json:"packets"` // packets that hosts sent, acknowledgements included
	Hops    uint64 `json:"hops"`    // links that packets crossed
}

// Series is the run over time, for plots.
type Series struct {
	AtNs        []int64
	Utilisation []float64   // utilisation of the bottleneck, since the sample before
	QueueNs     []float64   // time that a packet would wait there at the rate of the moment
	FlowBps     [][]float64 // rate of each of Flows: payload since the sample before
}

// Summary is a scheme's results in a scenario, over its seeds.
type Summary struct {
	Scenario *scenario.Scenario
	Scheme   string
	Results  []*Result // results by seed
}

// Median is the middle value of a metric over the seeds.
func (s *Summary) Median(metric string) (v float64, ok bool) {
	all := s.BySeed(metric)
	if len(all) == 0 {
		return 0, false
	}
	return sim.Percentile(all, .5), true
}

// Range is the least and the greatest value of a metric over the seeds.
func (s *Summary) Range(metric string) (low, high float64, ok bool) {
	all := s.BySeed(metric)
	if len(all) == 0 {
		return 0, 0, false
	}
	return all[0], all[len(all)-1], true
}

// BySeed are the values of a metric in all seeds that have it, sorted.
func (s *Summary) BySeed(metric string) (all []float64) {
	for _, r := range s.Results {
		if v, ok := r.Values[metric]; ok {
			all = append(all, v)
		}
	}
	slices.Sort(all)
	return all
}

// Worst is the value of the criterion's metric that is farthest on its wrong side.
func (s *Summary) Worst(c scenario.Criterion) (v float64, ok bool) {
	low, high, ok := s.Range(c.Metric)
	if c.AtLeast {
		return low, ok
	}
	return high, ok
}

// Missed lists the criteria that some seed did not fulfil, or did not measure.
func (s *Summary) Missed() (missed []scenario.Criterion) {
	for _, c := range s.Scenario.Criteria {
		if v, ok := s.Worst(c); !ok || !c.Holds(v) {
			missed = append(missed, c)
		}
	}
	return missed
}

// Text writes a metric's value for people.
func Text(metric string, v float64) string {
	switch metric {
	case "queue-p50", "queue-p99", "start-queue-p99", "convergence":
		if v >= Never {
			return "never"
		}
		return scenario.Time(v).String()
	case "loss", "start-loss", "unfinished":
		switch {
		case v == 0:
			return "0 %"
		case v < .0001:
			return "< 0.01 %"
		}
		return fmt.Sprintf("%.2f %%", v*100)
	case "utilisation", "start-utilisation", "jain":
		// Rounded down, so that what misses 0.95 does not look like 0.95.
		return fmt.Sprintf("%.3f", math.Floor(v*1000+1e-9)/1000)
	}
	return fmt.Sprintf("%.2f", v)
}
