// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/experiment"
)

// ClaimsOf are the claims held against the data for one scheme with some switches.
type ClaimsOf struct {
	Scheme, Queues string
	Claims         []Claim
}

// allClaims holds the claims for each of our schemes against those with the same switches.
func allClaims(one, bySize [][]*experiment.Summary) []ClaimsOf {
	return []ClaimsOf{
		{fourcase, "one data queue for all", Claims(one, fourcase)},
		{oneQueue, "one data queue for all", Claims(one, oneQueue)},
		{precredit, "the same queues by size for all", Claims(bySize, precredit)},
	}
}

// summary is the page in a few sentences, made of its figures.
func (d *Document) summary(control [][]*experiment.Summary, all []pair) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if len(control) > 0 {
		add("Long flows: all criteria hold in %s of the %d scenarios.", heldIn(control), len(control))
	}
	for _, s := range []string{fourcase, rates, oneQueue, precredit} {
		if missed := missedBy(control, s); len(missed) > 0 {
			add("%s misses %s.", s, strings.Join(missed, "; "))
		}
	}
	for _, c := range d.Claims {
		var held []string
		for i, claim := range c.Claims {
			if claim.Cases > 0 {
				held = append(held, fmt.Sprintf("%s in %d of %d", claimWords[i], claim.Held, claim.Cases))
			}
		}
		if len(held) > 0 {
			add("Completion times of %s, %s: %s cases.", c.Scheme, c.Queues, strings.Join(held, ", "))
		}
	}
	if n := oneRTTOf(all, parts[0]); n.all > 0 {
		add("Of the messages up to one BDP, %s lose no round trip with four-case alone, %s with queues by size, %s with pre-credit, %s with both.",
			percent(n), percent(oneRTTOf(all, parts[2])), percent(oneRTTOf(all, parts[3])), percent(oneRTTOf(all, parts[4])))
	}
	for _, c := range d.Costs {
		if c.Cases == 0 {
			continue
		}
		text := fmt.Sprintf("Pre-credit and messages of 0.15 to 10 MB, %s: slower by more than 5 %% in %d of %d cases, faster in %d", c.Queues, c.Worse, c.Cases, c.Better)
		if c.Worst != "" {
			text += "; worst: " + c.Worst
		}
		add("%s.", text)
	}
	return lines
}

// claimWords name the rules in a summary.
var claimWords = []string{"no worse than DCQCN and TIMELY", "no worse than Swift and HPCC below one BDP at the 99th percentile", "within 10 % of the best above it"}

func percent(f fast) string { return fmt.Sprintf("%.1f %%", 100*f.lostNone/max(f.all, 1)) }

// heldIn says in how many scenarios each scheme fulfils all criteria: "12 (fourcase), 3 (dcqcn)".
func heldIn(groups [][]*experiment.Summary) string {
	var held []string
	for _, first := range groups[0] {
		n := 0
		for _, g := range groups {
			if s := find(g, first.Scheme); s != nil && len(s.Missed()) == 0 {
				n++
			}
		}
		held = append(held, fmt.Sprintf("%d (%s)", n, first.Scheme))
	}
	return strings.Join(held, ", ")
}

// missedBy lists the scenarios that a scheme misses, and what.
func missedBy(groups [][]*experiment.Summary, scheme string) (all []string) {
	for _, g := range groups {
		s := find(g, scheme)
		if s == nil {
			continue
		}
		var metrics []string
		for _, c := range s.Missed() {
			metrics = append(metrics, c.Metric)
		}
		if len(metrics) > 0 {
			all = append(all, fmt.Sprintf("%q (%s)", g[0].Scenario.Title, strings.Join(metrics, ", ")))
		}
	}
	return all
}

// seedsOf are the seeds of the runs: "101 to 110".
func seedsOf(groups [][]*experiment.Summary) string {
	var seeds []uint64
	for _, g := range groups {
		for _, s := range g {
			for _, r := range s.Results {
				seeds = append(seeds, r.Seed)
			}
		}
	}
	if len(seeds) == 0 {
		return "none"
	}
	low, high := slices.Min(seeds), slices.Max(seeds)
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

func median(sorted []float64) float64 { return sim.Percentile(sorted, .5) }

// figures tables the summaries of one scenario of long flows: for each scheme the median of
// every figure, the range over the seeds where it shows, and which criteria are missed in any
// seed.
func figures(group []*experiment.Summary) experiment.Table {
	t := experiment.Verdicts(group)
	for i, s := range group {
		for j, metric := range t.Header {
			cell := &t.Rows[i][j]
			if values := s.BySeed(metric); len(values) > 0 {
				mark := strings.HasSuffix(*cell, " !")
				*cell = spreadOf(values, func(v float64) string { return experiment.Text(metric, v) })
				if mark {
					*cell += " !"
				}
			}
		}
	}
	return t
}
