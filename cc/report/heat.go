// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
	"github.com/softroce/softroce-xdp/internal/chart"
)

// heatMap shows for each scenario and scheme how far the worst figure of all seeds is
// from its criterion; nil without scenarios.
func heatMap(groups [][]*experiment.Summary) *Plot {
	h := &chart.Heat{Title: "Worst figure of all seeds, as a multiple of what its criterion allows"}
	for _, g := range groups {
		for _, s := range g {
			if !slices.Contains(h.Columns, s.Scheme) {
				h.Columns = append(h.Columns, s.Scheme)
			}
		}
	}
	if len(h.Columns) == 0 {
		return nil
	}
	for _, g := range groups {
		row := chart.HeatRow{Name: g[0].Scenario.Title}
		for _, name := range h.Columns {
			cell := chart.HeatCell{Text: "-"}
			if s := find(g, name); s != nil {
				cell = heatCell(s)
			}
			row.Cells = append(row.Cells, cell)
		}
		h.Rows = append(h.Rows, row)
	}
	h.Notes = []string{
		"Up to 1.0: all criteria hold in all seeds. Above: the worst figure misses its criterion by this factor. ∞: it never came. A dash: not run.",
		"The letter names the figure: " + strings.Join(letters(), ", ") + ". Of utilisation and Jain's index, what is missing to 1 counts.",
	}
	return &Plot{"cc-heatmap.svg", "how far each scheme is from the criteria of each scenario", h}
}

// heatCell is the figure that is farthest from its criterion.
func heatCell(s *experiment.Summary) chart.HeatCell {
	worst, metric := 0.0, ""
	for _, c := range s.Scenario.Criteria {
		if r := excess(s, c); r >= worst {
			worst, metric = r, c.Metric
		}
	}
	level := 0
	for _, limit := range []float64{1, 2, 5, 20} {
		if worst > limit {
			level++
		}
	}
	if metric == "" {
		return chart.HeatCell{Text: "-"}
	}
	text := ratioText(worst)
	if level > 0 {
		text += " " + letter(metric)
	}
	return chart.HeatCell{Text: text, Level: level}
}

// excess is the worst value of a criterion's metric over what the criterion allows, so
// that above 1 it is missed. Of shares that should be near 1 the rest to 1 is compared.
func excess(s *experiment.Summary, c scenario.Criterion) float64 {
	v, ok := s.Worst(c)
	var r float64
	switch {
	case !ok || v >= experiment.Never:
		return math.Inf(1)
	case c.AtLeast && c.Value < 1:
		r = (1 - v) / (1 - c.Value)
	case c.AtLeast:
		r = c.Value / v
	case v > 0:
		r = v / c.Value
	}
	// The criterion decides, not rounding.
	if c.Holds(v) {
		return min(r, 1)
	}
	return max(r, math.Nextafter(1, 2))
}

// ratioText has two digits. Rounding does not make a missed criterion look held.
func ratioText(r float64) string {
	switch {
	case math.IsInf(r, 1):
		return "∞"
	case r > 1 && r < 1.1:
		return "1.1"
	case r < 9.95:
		return fmt.Sprintf("%.1f", r)
	}
	return fmt.Sprintf("%.0f", r)
}

// letter is how the heat map names a metric.
func letter(metric string) string { return strings.ToUpper(metric[:1]) }

// letters explains them.
func letters() (all []string) {
	for _, m := range []string{"utilisation", "jain", "queue-p99", "loss", "convergence"} {
		all = append(all, letter(m)+" "+m)
	}
	return all
}
