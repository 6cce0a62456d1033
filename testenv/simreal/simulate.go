// SPDX-License-Identifier: Apache-2.0

package simreal

import (
	"context"
	"fmt"
	"io"
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

// Pair is a scenario's results.
type Pair struct {
	Scenario        *scenario.Scenario
	RTT             time.Duration
	Real, Simulated *experiment.Result
}

// WriteText writes a table of pairs.
func WriteText(w io.Writer, title string, pairs []Pair) error {
	t := chart.Table{Title: title, Header: []string{"scenario", "round trip", "", "utilisation", "jain", "queue median", "queue p99", "loss", "convergence"}}
	for _, p := range pairs {
		name, rtt := p.Scenario.Title, p.RTT.Round(time.Microsecond).String()
		for _, r := range []*experiment.Result{p.Real, p.Simulated} {
			row := []string{name, rtt, r.Scheme}
			for _, m := range []string{"utilisation", "jain", "queue-p50", "queue-p99", "loss", "convergence"} {
				row = append(row, experiment.Text(m, r.Values[m]))
			}
			t.Rows = append(t.Rows, row)
			name, rtt = "", ""
		}
	}
	if err := t.WriteText(w); err != nil {
		return fmt.Errorf("simreal: %w", err)
	}
	return nil
}
