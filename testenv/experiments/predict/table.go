// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// table collects the scores of methods over several seeds.
type table struct {
	targets []float64 // over-allocations
	names   []string
	cells   map[string][]cell // cells by method and target
}

// cell has one value per seed.
type cell struct {
	under, over []float64
	ratio       []float64 // ratios of under-allocation to that of the best baseline at equal over-allocation
	detail      string
}

// add compares methods, whose knobs are fitted on the validation traces, on the test traces. The reference
// is the baseline that misses least at the same over-allocation of the test traces: its
// margin is fitted there, which a real allocation could not do.
func (t *table) add(target int, simple, methods []method) {
	if t.cells == nil {
		t.cells = map[string][]cell{}
	}
	for _, m := range append(slices.Clone(simple), methods...) {
		s := m.test.at(m.validation.fit(t.targets[target]))
		least := s.under
		if !slices.ContainsFunc(simple, func(b method) bool { return b.name == m.name }) {
			least = 1
		}
		for _, b := range simple {
			if b.name != m.name {
				least = min(least, b.test.equal(s.over))
			}
		}
		if t.cells[m.name] == nil {
			t.names = append(t.names, m.name)
			t.cells[m.name] = make([]cell, len(t.targets))
		}
		c := &t.cells[m.name][target]
		c.under, c.over = append(c.under, s.under), append(c.over, s.over)
		c.ratio = append(c.ratio, s.under/least)
		c.detail = m.detail
	}
}

// write prints the table as Markdown.
func (t *table) write(out io.Writer, title string) {
	fmt.Fprintf(out, "\n**%s**\n\n| method |", title)
	for _, target := range t.targets {
		fmt.Fprintf(out, " %.4g %% |", 100*target)
	}
	fmt.Fprintf(out, " under / over at %.4g %% | detail |\n|---|%s---|---|\n", 100*t.targets[0], strings.Repeat("---|", len(t.targets)))
	for _, name := range t.names {
		fmt.Fprintf(out, "| %s |", name)
		for _, c := range t.cells[name] {
			fmt.Fprintf(out, " %s |", spread(c.ratio))
		}
		first := t.cells[name][0]
		fmt.Fprintf(out, " %.3f %% / %.3f %% | %s |\n", 100*mean(first.under), 100*mean(first.over), first.detail)
	}
}

// spread is the median and the range of values.
func spread(values []float64) string {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 1 {
		return fmt.Sprintf("%.2f", v[0])
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", (v[(len(v)-1)/2]+v[len(v)/2])/2, v[0], v[len(v)-1])
}
