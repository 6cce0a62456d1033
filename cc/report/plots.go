// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
	"github.com/softroce/softroce-xdp/internal/chart"
)

// Plot is a picture that can be drawn.
type Plot struct {
	Name string // of the file
	Text string // what it shows, for those who do not see it
	draw interface{ WritePNG(io.Writer) error }
}

// WritePNG draws it.
func (p Plot) WritePNG(w io.Writer) error { return p.draw.WritePNG(w) }

// ByScenario groups summaries, which come in the order of their scenarios.
func ByScenario(all []*experiment.Summary) (groups [][]*experiment.Summary) {
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(s *experiment.Summary) bool { return s.Scenario != all[0].Scenario })
		if n < 0 {
			n = len(all)
		}
		groups = append(groups, all[:n])
		all = all[n:]
	}
	return groups
}

// Plots are the pictures of one scenario: rates and queue over time of each scheme
// if it was sampled, slowdown by size if it has sizes.
func Plots(group []*experiment.Summary) (plots []Plot) {
	s := group[0].Scenario
	if len(s.Measure.Buckets) > 0 {
		plots = append(plots, slowdownPlot("cc-"+s.Name+".png", s.Title, [][]*experiment.Summary{group}))
	}
	if f := timeFigure(group); f != nil {
		plots = append(plots, Plot{"cc-" + s.Name + ".png", s.Title + ": rates and queue over time, by scheme", f})
	}
	return plots
}

// most is how many flows a panel shows: more lines than that say nothing.
const most = 8

// timeFigure shows the first seed of each scheme; nil if nothing was sampled.
func timeFigure(group []*experiment.Summary) *chart.Figure {
	s := group[0].Scenario
	f := &chart.Figure{Columns: 4, Small: true}
	for _, e := range s.Events {
		f.Marks = append(f.Marks, chart.Mark{At: time.Duration(e.At)})
	}
	for _, sum := range group {
		r := sum.Results[0]
		if r.Series == nil {
			continue
		}
		rates := chart.Panel{Title: sum.Scheme, Unit: "Gbit/s, payload"}
		scale := 1e9
		if s.Links.Host < 1e9 {
			rates.Unit, scale = "Mbit/s, payload", 1e6
		}
		for i, bps := range r.Series.FlowBps {
			if i == most {
				break
			}
			rates.Lines = append(rates.Lines, chart.Series{Points: points(r.Series.AtNs, bps, scale), Color: i})
		}
		queue := chart.Panel{Title: sum.Scheme, Unit: "queue, us"}
		queue.Lines = append(queue.Lines, chart.Series{Points: points(r.Series.AtNs, r.Series.QueueNs, 1e3)})
		f.Panels = append(f.Panels, rates, queue)
	}
	if len(f.Panels) == 0 {
		return nil
	}
	return f
}

func points(at []int64, values []float64, unit float64) []chart.Point {
	pts := make([]chart.Point, len(values))
	for i, v := range values {
		pts[i] = chart.Point{At: time.Duration(at[i]), Value: v / unit}
	}
	return pts
}

// slowdownPlot shows median and 99th percentile by size, a row for each group: the
// same workload at different loads.
func slowdownPlot(name, title string, groups [][]*experiment.Summary) Plot {
	steps := &chart.Steps{Columns: 2}
	for _, b := range groups[0][0].Scenario.Measure.Buckets {
		steps.Names = append(steps.Names, scenario.Size(b).String())
	}
	for _, group := range groups {
		for _, p := range []int{50, 99} {
			panel := chart.StepPanel{Title: fmt.Sprintf("%s, percentile %d", loadOf(group[0].Scenario), p), Unit: "slowdown", Log: true}
			for c, s := range group {
				line := chart.StepSeries{Name: s.Scheme, Color: c, Dashed: c >= 7}
				for i := range steps.Names {
					line.Values = append(line.Values, s.Slowdown(i, p))
				}
				panel.Lines = append(panel.Lines, line)
			}
			steps.Panels = append(steps.Panels, panel)
		}
	}
	return Plot{name, title + ": slowdown by size of message", steps}
}

// loadOf writes the loads of a scenario's workloads: "50 %".
func loadOf(s *scenario.Scenario) string {
	var loads []string
	for _, t := range s.Traffic {
		if w := t.Workload; w != nil {
			loads = append(loads, fmt.Sprintf("%s at %.0f %%", w.Sizes, float64(w.Load)*100))
		}
	}
	return strings.Join(loads, " and ")
}
