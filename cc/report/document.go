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
	"github.com/softroce/softroce-xdp/cc/sim/validate"
)

// Input is what the report is made of. It holds nothing that depends on the
// machine or the day, so that the same sources give the same report.
type Input struct {
	Summaries []*experiment.Summary // of the whole library, in its order
	// Validation compares with what papers found.
	Validation []validate.Row
	// Reality is the text of the comparison with real interfaces, "" if it was not
	// made.
	Reality string
	Short   bool // made of Quick scenarios
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
	Completion []workloadSection
	Claims     []Claim // of pre-credit with its data queues
	OneQueue   []Claim // and with one
	Precredit  []experiment.Table
	Scale      experiment.Table
	Validation []validate.Row
	Reality    string
	Lost       []string // where fourcase misses a criterion
	HeatMap    *Plot    // of the scenarios of long flows
	Plots      []Plot
}

type named struct{ Name, About string }

// section is a scenario of long flows.
type section struct {
	Scenario *scenario.Scenario
	Table    experiment.Table
	Plot     *Plot
}

// workloadSection is one workload at several loads.
type workloadSection struct {
	Title string
	Plot  Plot
	Loads []loadSection
}

type loadSection struct {
	Load     string
	Messages int
	P50, P99 experiment.Table
}

// New puts a document together.
func New(in Input) *Document {
	d := &Document{Short: in.Short, Sources: in.Sources, Validation: in.Validation, Reality: in.Reality}
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
	d.Completion = d.completionSections(completion)
	d.Claims, d.OneQueue = Claims(completion, precredit), Claims(completion, oneQueue)
	d.Precredit = precreditTables(completion)
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
		s := section{Scenario: g[0].Scenario, Table: experiment.Verdicts(g)}
		if plots := Plots(g); len(plots) > 0 {
			s.Plot = &plots[0]
			d.Plots = append(d.Plots, plots[0])
		}
		all = append(all, s)
	}
	return all
}

func (d *Document) completionSections(groups [][]*experiment.Summary) (all []workloadSection) {
	for len(groups) > 0 {
		sizes := sizesOf(groups[0][0].Scenario)
		n := slices.IndexFunc(groups, func(g []*experiment.Summary) bool { return sizesOf(g[0].Scenario) != sizes })
		if n < 0 {
			n = len(groups)
		}
		title, _, _ := strings.Cut(groups[0][0].Scenario.Title, " at ")
		w := workloadSection{Title: title, Plot: slowdownPlot("cc-fct-"+sizes+".svg", title, groups[:n])}
		for _, g := range groups[:n] {
			count := 0
			for _, b := range g[0].Results[0].Buckets {
				count += b.Count
			}
			w.Loads = append(w.Loads, loadSection{loadOf(g[0].Scenario), count, experiment.Slowdowns(g, 50), experiment.Slowdowns(g, 99)})
		}
		d.Plots = append(d.Plots, w.Plot)
		all = append(all, w)
		groups = groups[n:]
	}
	return all
}

func sizesOf(s *scenario.Scenario) string {
	for _, t := range s.Traffic {
		if t.Workload != nil {
			return t.Workload.Sizes
		}
	}
	return s.Name
}

// precreditTables show, for each completion scenario, the share of messages under
// one BDP that lost no more than a round trip, with and without pre-credit, and
// what it does to the largest.
func precreditTables(groups [][]*experiment.Summary) (all []experiment.Table) {
	t := experiment.Table{Header: []string{"workload", "scheme", "under one BDP: lost no round trip", "largest messages: p50", "largest messages: p99"}}
	for _, g := range groups {
		for _, name := range []string{fourcase, rates, oneQueue, precredit} {
			s := find(g, name)
			if s == nil {
				continue
			}
			last := len(g[0].Scenario.Measure.Buckets) - 1
			t.Rows = append(t.Rows, []string{loadOf(g[0].Scenario), name, oneRTT(s),
				fmt.Sprintf("%.2f", s.Slowdown(last, 50)), fmt.Sprintf("%.2f", s.Slowdown(last, 99))})
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return append(all, t)
}

// oneRTT is the share over all seeds.
func oneRTT(s *experiment.Summary) string {
	fast, count := 0.0, 0
	for _, r := range s.Results {
		for _, b := range r.Buckets {
			if b.Bytes != 0 && b.Bytes <= r.BDPBytes {
				fast += b.OneRTT * float64(b.Count)
				count += b.Count
			}
		}
	}
	if count == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %% of %d", 100*fast/float64(count), count)
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

// lost says where the robust four-case misses a criterion.
func lost(groups [][]*experiment.Summary) (all []string) {
	for _, g := range groups {
		for _, name := range []string{fourcase, rates, precredit} {
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
	"table": markdown,
	"trim":  strings.TrimSpace,
	"validation": func(rows []validate.Row) (string, error) {
		var b strings.Builder
		err := validate.Markdown(&b, rows)
		return b.String(), err
	},
}).Parse(source))

// WriteMarkdown writes the document; pictures are in the directory img next to it.
func (d *Document) WriteMarkdown(w io.Writer) error {
	if err := document.Execute(w, d); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// markdown writes a table.
func markdown(t experiment.Table) string {
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
