// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"slices"
	"strings"

	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// Table is rows of text with a header.
type Table struct {
	Header []string
	Rows   [][]string
}

// Verdicts tables the summaries of one scenario: for each scheme the worst value
// over the seeds of every metric that was measured, those that miss their criterion
// marked with "!", and whether all criteria hold.
func Verdicts(all []*Summary) Table {
	metrics := measured(all)
	t := Table{Header: append([]string{"scheme"}, metrics...)}
	judged := len(all) > 0 && len(all[0].Scenario.Criteria) > 0
	if judged {
		t.Header = append(t.Header, "verdict")
	}
	for _, s := range all {
		row := []string{s.Scheme}
		missed := s.Missed()
		for _, m := range metrics {
			row = append(row, s.cell(m, missed))
		}
		if judged {
			row = append(row, verdict(missed))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func verdict(missed []scenario.Criterion) string {
	if len(missed) == 0 {
		return "ok"
	}
	var names []string
	for _, c := range missed {
		names = append(names, c.Metric)
	}
	return "MISSED " + strings.Join(names, ", ")
}

// cell is the worst value of a metric by its criterion, the median without one.
func (s *Summary) cell(metric string, missed []scenario.Criterion) string {
	is := func(c scenario.Criterion) bool { return c.Metric == metric }
	v, ok := s.Median(metric)
	if i := slices.IndexFunc(s.Scenario.Criteria, is); i >= 0 {
		v, ok = s.Worst(s.Scenario.Criteria[i])
	}
	switch {
	case !ok:
		return "-"
	case slices.ContainsFunc(missed, is):
		return Text(metric, v) + " !"
	}
	return Text(metric, v)
}

// measured lists the metrics that any of the results has, in the order of
// scenario.Metrics.
func measured(all []*Summary) (names []string) {
	for _, m := range scenario.Metrics {
		has := func(s *Summary) bool { _, ok := s.Median(m.Name); return ok }
		if slices.ContainsFunc(all, has) {
			names = append(names, m.Name)
		}
	}
	return names
}
