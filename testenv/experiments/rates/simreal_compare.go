// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"fmt"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
)

// Tolerance is by how much a figure of reality may be off that of the simulation, and why
// it may: what the simulator leaves out.
type Tolerance struct {
	Metric       string
	Below, Above float64 // tolerance in the unit of the metric: a share, or ns
	Why          string
}

const ms = 1e6 // of ns

// What every real run has and the simulator has not.
const (
	whyBucket = "a token bucket holds 2 ms at the bottleneck's rate, which a sample may see on top"
	whyShared = "all hosts share two cores: an agent decides up to 10 ms late, and what a pacer then may not send is lost"
	whySwing  = "the queue swings between nothing and some ms, and a median of samples falls anywhere in between"
	whyLate   = "a late decision leaves the queue for one more interval, 5 to 10 ms"
	whyNoLoss = "both have room for all that is in flight"
	whyHeld   = "some 64 packets of a flow wait in its host's pacer, which the simulator's hosts do not have: a rate is judged when they have left"
)

// tolerances by who sends on the real hosts. Convergence is not compared: a real flow that
// stays within a band for good is a matter of luck.
var tolerances = map[string][]Tolerance{
	"host": {
		{"utilisation", .05, .02, whyBucket},
		{"jain", .2, .02, whyHeld},
		{"queue-p50", 2.5 * ms, 2.5 * ms, whySwing},
		{"queue-p99", 7 * ms, 7 * ms, whyLate},
		{"loss", .005, .005, whyNoLoss},
	},
	"engine": {
		{"utilisation", .15, .02, whyShared},
		{"jain", .05, .02, whyShared},
		{"queue-p50", 2.5 * ms, 2.5 * ms, whySwing},
		{"queue-p99", 5 * ms, 5 * ms, whyLate},
		{"loss", .005, .005, whyNoLoss},
	},
}

// exceptions by scenario and who sends.
var exceptions = map[string][]Tolerance{
	"incast-7 by engine": {
		{"utilisation", .3, .02, "eight engines that all poll share two cores"},
		{"queue-p50", 3.5 * ms, 2.5 * ms, "the bottleneck is not full"},
	},
	"on-off by host": {
		{"utilisation", .25, .02, whyHeld},
	},
	"slow-link by host": {
		{"utilisation", .35, .02, whyHeld},
		{"jain", .5, .02, whyHeld},
		{"queue-p99", 20 * ms, 20 * ms, whyHeld},
	},
	"slow-link by engine": {
		{"queue-p99", 20 * ms, 20 * ms, "of 20 Mbit/s a late decision makes ten times the queue that it makes of 200"},
	},
}

// toleranceOf are those for one scenario and sender.
func toleranceOf(scenario, by string) []Tolerance {
	all := append([]Tolerance(nil), tolerances[by]...)
	for _, x := range exceptions[scenario+" by "+by] {
		for i := range all {
			if all[i].Metric == x.Metric {
				all[i] = x
			}
		}
	}
	return all
}

// Apart lists the figures in which the medians of the real and of the simulated runs are
// further apart than tolerated, as sentences.
func (p *Pair) Apart() (out []string) {
	real, simulated := experiment.Summary{Results: p.Real}, experiment.Summary{Results: p.Simulated}
	for _, tol := range toleranceOf(p.Scenario.Name, p.By) {
		r, rok := real.Median(tol.Metric)
		s, sok := simulated.Median(tol.Metric)
		switch {
		case !rok && !sok:
		case rok != sok:
			out = append(out, fmt.Sprintf("%s: only one of both has it", tol.Metric))
		case r < s-tol.Below || r > s+tol.Above:
			out = append(out, fmt.Sprintf("%s is %s, simulated %s; from %s to %s is tolerated (%s)", tol.Metric,
				experiment.Text(tol.Metric, r), experiment.Text(tol.Metric, s),
				experiment.Text(tol.Metric, max(0, s-tol.Below)), experiment.Text(tol.Metric, s+tol.Above), tol.Why))
		}
	}
	return out
}
