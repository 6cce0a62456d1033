// SPDX-License-Identifier: Apache-2.0

package schemes_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// TestFourCaseHolds runs scenarios of the library for which both forms of the
// policy meet every criterion, with the one set of parameters that follows from
// the link's rate and the round trip. What is not in the list is in
// docs/study/four-case.md.
func TestFourCaseHolds(t *testing.T) {
	both := []string{"fourcase", "fourcase-rate"}
	for name, chosen := range map[string][]string{
		"incast-8": both, "incast-16": both, "incast-64": both, "late-joiner": both, "clock-offset": both,
		"clock-step": both, "jitter-2us": both, "jitter-20us": both, "reverse": both, "parking-lot": both, "on-off": both,
		"slow-link": both[:1],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Named(name)
			if err != nil {
				t.Fatal(err)
			}
			meets(t, s, chosen)
		})
	}
}

// firstSeed runs the first seed of a scenario with schemes.
func firstSeed(t *testing.T, s *scenario.Scenario, chosen ...string) []*experiment.Summary {
	t.Helper()
	s.Seeds = s.Seeds[:1]
	picked, err := experiment.Schemes(s, chosen)
	if err != nil {
		t.Fatal(err)
	}
	jobs := experiment.Jobs(s, picked)
	results, err := experiment.RunAll(t.Context(), jobs, 1, func(int, float64) {})
	if err != nil {
		t.Fatal(err)
	}
	return experiment.Summaries(jobs, results)
}

// meets runs the first seed of a scenario and reports every criterion that is missed.
func meets(t *testing.T, s *scenario.Scenario, chosen []string) {
	t.Helper()
	for _, sum := range firstSeed(t, s, chosen...) {
		for _, c := range sum.Missed() {
			worst, _ := sum.Worst(c)
			t.Errorf("%s: %s is %s, want %s", sum.Scheme, c.Metric, experiment.Text(c.Metric, worst), c.Text)
		}
	}
}

// TestShortAndLongWay: that a flow over three bottlenecks has its share is not bought with
// its long round trip. Where it shares only one of its links, it has no more than that.
func TestShortAndLongWay(t *testing.T) {
	const short = "  - flows: {from: 4, to: 5}\n"
	for name, flows := range map[string]string{"one link shared": short, "two": short + "  - flows: {from: 6, to: 7}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Parse("short-and-long.yaml", strings.NewReader(`
name: short-and-long
title: A short and a long way
about: One flow crosses three links between switches, others one of them.
group: control
topology: {kind: parking-lot, hops: 3}
links: {host: 100Gbit/s, delay: 2us}
transport: {mtu: 1000}
traffic:
  - flows: {from: 0, to: 1}
`+flows+`measure: {from: 10ms, to: 40ms, at: trunk 1, target: 25us, sample: 100us}
criteria: {utilisation: ">= 0.95", jain: ">= 0.98", queue-p99: "<= 2 target", loss: "<= 0.5%", convergence: "<= 10ms"}
seeds: [1]
`))
			if err != nil {
				t.Fatal(err)
			}
			meets(t, s, []string{"fourcase", "fourcase-rate"})
		})
	}
}

// TestLiteralFails: the words of S1.6 alone miss utilisation or the queue in an
// incast of eight.
func TestLiteralFails(t *testing.T) {
	s, err := scenario.Named("incast-8")
	if err != nil {
		t.Fatal(err)
	}
	missed := firstSeed(t, s, "literal")[0].Missed()
	if !slices.ContainsFunc(missed, func(c scenario.Criterion) bool { return c.Metric == "queue-p99" || c.Metric == "utilisation" }) {
		t.Errorf("missed %v: it does better than its words", missed)
	}
}
