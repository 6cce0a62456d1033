// SPDX-License-Identifier: Apache-2.0

package report

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
	"github.com/softroce/softroce-xdp/internal/texts"
)

// Input is what the report is made of. It holds nothing that depends on the
// machine or the day, so that the same sources give the same report.
type Input struct {
	Summaries []*experiment.Summary // summaries of the whole library, in its order
	// Validation compares with what papers found.
	Validation []Row
	Short      bool // made of Quick scenarios
	// Sources is the Fingerprint of what was run.
	Sources string
	// About says what each scheme is, by name.
	About map[string]string
}

// Document is the report before it is text.
type Document struct {
	Short      bool
	Sources    string
	Schemes    []named
	Overview   experiment.Table
	Control    []section
	Completion []queueGroup // tables with one data queue, and with queues by size
	Claims     []ClaimsOf
	Ablation   experiment.Table // gain by queues, parameters and pre-credit
	Costs      []Cost           // costs of pre-credit
	Summary    []string         // the page in a few sentences
	Seeds      string           // seeds of long flows and completion times
	Scale      experiment.Table
	Validation []Row
	Lost       []string // cases in which our schemes miss a criterion
	HeatMap    *Plot    // map of the scenarios of long flows
	Plots      []Plot
}

type named struct{ Name, About string }

// section is a scenario of long flows.
type section struct {
	Scenario *scenario.Scenario
	Table    experiment.Table
	Plot     *Plot
}

// New puts a document together.
func New(in Input) *Document {
	d := &Document{Short: in.Short, Sources: in.Sources, Validation: in.Validation}
	var control, completion, scale [][]*experiment.Summary
	for _, g := range ByScenario(in.Summaries) {
		for _, s := range g {
			if !slices.ContainsFunc(d.Schemes, func(n named) bool { return n.Name == s.Scheme }) {
				d.Schemes = append(d.Schemes, named{s.Scheme, in.About[s.Scheme]})
			}
		}
		switch g[0].Scenario.Group {
		case scenario.Control:
			control = append(control, g)
		case scenario.Completion:
			completion = append(completion, g)
		case scenario.Scale:
			scale = append(scale, g)
		}
	}
	d.Overview = overview(control)
	if d.HeatMap = heatMap(control); d.HeatMap != nil {
		d.Plots = append(d.Plots, *d.HeatMap)
	}
	d.Control = d.controlSections(control)
	one, bySize := split(completion)
	d.Completion = []queueGroup{d.queueGroup(one, "cc-fct-"), d.queueGroup(bySize, "cc-queues-")}
	d.Claims = allClaims(one, bySize)
	both := pairs(one, bySize)
	d.Ablation, d.Costs = ablation(both), costs(both)
	d.Summary = d.summary(control, both)
	d.Seeds = seedsOf(slices.Concat(control, completion))
	d.Scale = scaleTable(scale)
	d.Lost = lost(control)
	return d
}

// overview has a row for each scenario and a column for each scheme.
func overview(groups [][]*experiment.Summary) (t experiment.Table) {
	if len(groups) == 0 {
		return t
	}
	t.Header = []string{"scenario"}
	for _, s := range groups[0] {
		t.Header = append(t.Header, s.Scheme)
	}
	passed := make([]int, len(t.Header))
	for _, g := range groups {
		row := []string{g[0].Scenario.Title}
		for i, name := range t.Header[1:] {
			s := find(g, name)
			if s == nil {
				row = append(row, "-")
				continue
			}
			missed := s.Missed()
			if len(missed) == 0 {
				row = append(row, "ok")
				passed[i]++
				continue
			}
			var names []string
			for _, c := range missed {
				v, ok := s.Worst(c)
				text := "not measured"
				if ok {
					text = experiment.Text(c.Metric, v)
				}
				names = append(names, c.Metric+" "+text)
			}
			row = append(row, "MISSED "+strings.Join(names, ", "))
		}
		t.Rows = append(t.Rows, row)
	}
	total := []string{"all criteria held in"}
	for i := range t.Header[1:] {
		total = append(total, fmt.Sprintf("%d of %d", passed[i], len(groups)))
	}
	t.Rows = append(t.Rows, total)
	return t
}

func (d *Document) controlSections(groups [][]*experiment.Summary) (all []section) {
	for _, g := range groups {
		s := section{Scenario: g[0].Scenario, Table: figures(g)}
		if plots := Plots(g); len(plots) > 0 {
			s.Plot = &plots[0]
			d.Plots = append(d.Plots, plots[0])
		}
		all = append(all, s)
	}
	return all
}

// scaleTable has what scale scenarios cost in packets; the machine's time is in a
// file of its own, because it is another each time.
func scaleTable(groups [][]*experiment.Summary) experiment.Table {
	t := experiment.Table{Header: []string{"hosts", "scheme", "packets", "links crossed", "links per packet"}}
	for _, g := range groups {
		for _, s := range g {
			c := s.Results[0].Cost
			t.Rows = append(t.Rows, []string{fmt.Sprint(g[0].Scenario.Topology.Size()), s.Scheme, fmt.Sprint(c.Packets), fmt.Sprint(c.Hops),
				fmt.Sprintf("%.2f", float64(c.Hops)/float64(max(1, c.Packets)))})
		}
	}
	return t
}

// lost says where our schemes miss a criterion.
func lost(groups [][]*experiment.Summary) (all []string) {
	for _, g := range groups {
		for _, name := range []string{fourcase, rates, oneQueue, precredit} {
			s := find(g, name)
			if s == nil {
				continue
			}
			for _, c := range s.Missed() {
				text := "not measured"
				if v, ok := s.Worst(c); ok {
					text = experiment.Text(c.Metric, v)
				}
				all = append(all, fmt.Sprintf("%s, %s: %s is %s, should be %s%s", g[0].Scenario.Title, name, c.Metric, text, c, others(g, c)))
			}
		}
	}
	return all
}

// others names the baselines that fulfil a criterion.
func others(group []*experiment.Summary, c scenario.Criterion) string {
	var names []string
	for _, s := range group {
		if v, ok := s.Worst(c); ok && !ownFamily[s.Scheme] && c.Holds(v) {
			names = append(names, s.Scheme)
		}
	}
	switch len(names) {
	case 0:
		return "; no baseline is"
	case 1:
		return "; " + names[0] + " is"
	}
	return "; " + strings.Join(names, ", ") + " are"
}

//go:embed document.md.tmpl
var source string

var document = template.Must(template.New("document").Funcs(template.FuncMap{
	"table": tableText,
	"trim":  strings.TrimSpace,
	"validation": func(rows []Row) (string, error) {
		var b strings.Builder
		err := Markdown(&b, rows)
		return b.String(), err
	},
}).Parse(source))

// WriteMarkdown writes the document; pictures are in the directory img next to it.
func (d *Document) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	if err := document.Execute(&b, d); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err := io.WriteString(w, texts.FitMarkdown(b.String()))
	return err
}

// tableText writes a table.
func tableText(t experiment.Table) string {
	if len(t.Rows) == 0 {
		return "(nothing was measured)\n"
	}
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.Header)
	rule := make([]string, len(t.Header))
	for i := range rule {
		rule[i] = "---"
	}
	fmt.Fprintf(&b, "|%s|\n", strings.Join(rule, "|"))
	for _, row := range t.Rows {
		escaped := slices.Clone(row)
		for i := range escaped {
			escaped[i] = strings.ReplaceAll(escaped[i], "|", `\|`)
		}
		line(escaped)
	}
	return b.String()
}
