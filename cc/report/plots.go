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
	Name string // name of the file
	Text string // description for those who do not see the plot
	draw interface{ WriteSVG(io.Writer) error }
}

// WriteSVG draws it.
func (p Plot) WriteSVG(w io.Writer) error { return p.draw.WriteSVG(w) }

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
		plots = append(plots, slowdownPlot("cc-"+s.Name+".svg", s.Title, [][]*experiment.Summary{group}))
	}
	if f := timeFigure(group); f != nil {
		plots = append(plots, Plot{"cc-" + s.Name + ".svg", s.Title + ": rates and queue over time, by scheme", f})
	}
	return plots
}

// leastQueue is where the logarithmic axis of queues begins, in microseconds.
const leastQueue = 0.1

// timeFigure shows the first seed of each scheme; nil if nothing was sampled.
func timeFigure(group []*experiment.Summary) *chart.Figure {
	s := group[0].Scenario
	f := &chart.Figure{
		Title: s.Title, Columns: 4, Small: true,
		Note: fmt.Sprintf("Left the payload rate of a flow, right the queue. Lines are means over short times and over flows; areas reach from the least to the greatest value. Seed %d.", group[0].Results[0].Seed),
	}
	for _, e := range s.Events {
		f.Marks = append(f.Marks, chart.Mark{At: time.Duration(e.At), Text: e.Rate.String()})
	}
	kinds := flowKinds(s)
	unit, scale := "Gbit/s", 1e9
	if s.Links.Host < 1e9 {
		unit, scale = "Mbit/s", 1e6
	}
	for _, sum := range group {
		r := sum.Results[0]
		if r.Series == nil {
			continue
		}
		rates := chart.Panel{Title: sum.Scheme, Unit: unit, Lines: make([]chart.Series, len(kinds.names))}
		for i, name := range kinds.names {
			rates.Lines[i] = chart.Series{Name: name, Style: i}
		}
		for i, bps := range r.Series.FlowBps {
			l := &rates.Lines[kinds.of[i]]
			l.Points = append(l.Points, points(r.Series.AtNs, bps, scale)...)
		}
		queue := chart.Panel{Title: sum.Scheme, Unit: "us", LogFrom: leastQueue, Lines: []chart.Series{
			{Name: "queueing delay at the bottleneck", Style: queueStyle, Points: points(r.Series.AtNs, r.Series.QueueNs, 1e3)}}}
		for _, c := range s.Criteria {
			if c.Metric == "queue-p99" {
				queue.Levels = []chart.Level{{Value: c.Value / 1e3, Text: "criterion"}}
			}
		}
		f.Panels = append(f.Panels, rates, queue)
	}
	if len(f.Panels) == 0 {
		return nil
	}
	return f
}

// queueStyle is a style that no kind of flow has.
const queueStyle = 4

// kinds says which line each flow without end belongs to.
type kinds struct {
	names []string
	of    []int // kinds by flow
}

// flowKinds puts flows together that should have the same rate over time: those that
// start at once, and in a parking lot those that cross all bottlenecks.
func flowKinds(s *scenario.Scenario) (k kinds) {
	for _, f := range s.Endless() {
		name := "flows"
		switch {
		case s.Topology.Kind == "parking-lot" && f.Src == 0:
			name = "flow over all bottlenecks"
		case s.Topology.Kind == "parking-lot":
			name = "flows over one bottleneck"
		case f.Start > 0:
			name = fmt.Sprintf("flows from %v on", f.Start)
		}
		i := slices.Index(k.names, name)
		if i < 0 {
			i, k.names = len(k.names), append(k.names, name)
		}
		k.of = append(k.of, i)
	}
	return k
}

func points(at []int64, values []float64, unit float64) []chart.Point {
	pts := make([]chart.Point, len(values))
	for i, v := range values {
		pts[i] = chart.Point{At: time.Duration(at[i]), Value: v / unit}
	}
	return pts
}

// slowdownPlot shows median and 99th percentile by size, a row for each group: the
// same workload at different loads. Our own schemes have thick lines.
func slowdownPlot(name, title string, groups [][]*experiment.Summary) Plot {
	steps := &chart.Steps{Title: title + ": slowdown by size of message", Unit: "slowdown", Of: "messages up to", Columns: 2, Log: true}
	for _, b := range groups[0][0].Scenario.Measure.Buckets {
		steps.Names = append(steps.Names, scenario.Size(b).String())
	}
	for _, group := range groups {
		for _, p := range []int{50, 99} {
			panel := chart.StepPanel{Title: fmt.Sprintf("%s, percentile %d", loadOf(group[0].Scenario), p)}
			for i, s := range group {
				line := chart.StepSeries{Name: s.Scheme, Style: styleOf(group, i), Bold: ownFamily[s.Scheme]}
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

// styled are the schemes with styles of their own, the same in all pictures.
var styled = []string{"fourcase", "fourcase-precredit", "precredit-one-queue", "dcqcn", "timely", "dctcp", "swift", "hpcc", "expresspass",
	"aeolus", "fourcase-low-priority", "fourcase-rate", "literal"}

// styleOf is the style of a scheme. Where another one has none of its own, the schemes
// of the picture are counted, so that no two have the same.
func styleOf(group []*experiment.Summary, i int) int {
	for _, s := range group {
		if !slices.Contains(styled, s.Scheme) {
			return i
		}
	}
	return slices.Index(styled, group[i].Scheme)
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
