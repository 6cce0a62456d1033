// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
	"github.com/softroce/softroce-xdp/internal/chart"
)

// Simulate runs the scenario in the simulator, with the round trip that the real
// network has when idle.
func Simulate(ctx context.Context, s *scenario.Scenario, rtt time.Duration, scheme scenario.Scheme) (*experiment.Result, error) {
	twin := *s
	// Out and back over the two links of a star.
	twin.Links.Delay = scenario.Time(rtt / 4)
	r, err := experiment.Run(ctx, experiment.Job{Scenario: &twin, Scheme: scheme, Seed: 1}, func(float64) {})
	if err != nil {
		return nil, err
	}
	return experiment.FromSamples(&twin, "simulated", r.Flows, r.Series, r.Values["loss"]), nil
}

// Pair is a scenario's results, one or more runs of each kind. Every simulated run
// has the round trip of the real one next to it.
type Pair struct {
	Scenario        *scenario.Scenario
	By              string // name of the sender on the real hosts
	RTT             []time.Duration
	Real, Simulated []*experiment.Result
}

// WriteText writes a table of pairs: medians of the runs, and where the runs differ,
// the lowest and the highest.
func WriteText(w io.Writer, title string, pairs []Pair) error {
	t := chart.Table{Title: title, Header: []string{"scenario", "sent by", "round trip", "", "utilisation", "jain", "queue median", "queue p99", "loss", "convergence"}}
	for _, p := range pairs {
		name, by, rtt := p.Scenario.Title, p.By, slices.Sorted(slices.Values(p.RTT))[len(p.RTT)/2].Round(time.Microsecond).String()
		for _, runs := range [][]*experiment.Result{p.Real, p.Simulated} {
			row := []string{name, by, rtt, runs[0].Scheme}
			for _, m := range []string{"utilisation", "jain", "queue-p50", "queue-p99", "loss", "convergence"} {
				row = append(row, cell(m, runs))
			}
			t.Rows = append(t.Rows, row)
			name, by, rtt = "", "", ""
		}
	}
	if err := t.WriteText(w); err != nil {
		return fmt.Errorf("simvsreal: %w", err)
	}
	return nil
}

func cell(metric string, runs []*experiment.Result) string {
	sum := experiment.Summary{Results: runs}
	middle, _ := sum.Median(metric)
	least, most, _ := sum.Range(metric)
	text, low, high := experiment.Text(metric, middle), experiment.Text(metric, least), experiment.Text(metric, most)
	if low != high {
		text += " (" + low + ".." + high + ")"
	}
	return text
}
