// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/internal/chart"
)

const criteriaText = `name: incast
title: Incast
topology: {kind: star, hosts: 3}
links: {host: 10Gbit/s}
traffic:
  - flows: {from: 1-2, to: 0}
measure: {to: 1ms, at: down 0, target: 10us, sample: 100us}
criteria: {utilisation: ">= 0.95", queue-p99: "<= 2 target", loss: "<= 0%", convergence: "<= 100us"}
`

// A cell is the figure farthest from its criterion, as a multiple of what is allowed:
// above 1 exactly if a criterion is missed.
func TestHeatCells(t *testing.T) {
	s := parse(t, criteriaText)
	for name, c := range map[string]struct {
		utilisation, queue, loss, convergence float64
		want                                  chart.HeatCell
	}{
		"all held":             {.98, 10e3, 0, 0, chart.HeatCell{Text: "0.5"}},
		"exactly held":         {.95, 20e3, 0, 0, chart.HeatCell{Text: "1.0"}},
		"hardly missed":        {.95, 20.001e3, 0, 0, chart.HeatCell{Text: "1.1 Q", Level: 1}},
		"four times the rest":  {.80, 10e3, 0, 0, chart.HeatCell{Text: "4.0 U", Level: 2}},
		"what must be nothing": {.98, 10e3, .1, 0, chart.HeatCell{Text: "∞ L", Level: 4}},
		"never":                {.98, 200e3, 0, experiment.Never, chart.HeatCell{Text: "∞ C", Level: 4}},
	} {
		sum := &experiment.Summary{Scenario: s, Results: []*experiment.Result{{Values: map[string]float64{
			"utilisation": c.utilisation, "queue-p99": c.queue, "loss": c.loss, "convergence": c.convergence}}}}
		got := heatCell(sum)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		if (got.Level > 0) != (len(sum.Missed()) > 0) {
			t.Errorf("%s: level %d, missed %v", name, got.Level, sum.Missed())
		}
	}
	sum := &experiment.Summary{Scenario: s, Results: []*experiment.Result{{}}}
	if r := excess(sum, s.Criteria[0]); !math.IsInf(r, 1) {
		t.Errorf("not measured: %v", r)
	}
}
