// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

func parse(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("test.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const completionText = `name: fct
title: Hadoop at 50 %
group: completion
topology: {kind: fat-tree, k: 4}
links: {host: 100Gbit/s}
traffic:
  - workload: {sizes: hadoop, load: 50%}
measure: {to: 1ms, buckets: [10KB, 1MB]}
`

// completion makes a scheme's summary of slowdowns p50 and p99 for messages of less
// than one BDP and for others.
func completion(s *scenario.Scenario, scheme string, small50, small99, large50, large99 float64) *experiment.Summary {
	return &experiment.Summary{Scenario: s, Scheme: scheme, Results: []*experiment.Result{{
		Scheme: scheme, BDPBytes: 150_000, Values: map[string]float64{},
		Buckets: []experiment.Bucket{
			{Bytes: 10_000, Count: 100, P50: small50, P99: small99, OneRTT: .8},
			{Bytes: 1_000_000, Count: 10, P50: large50, P99: large99},
		},
	}}}
}

func TestClaims(t *testing.T) {
	s := parse(t, completionText)
	group := []*experiment.Summary{
		completion(s, fourcase, 9, 9, 9, 9),
		completion(s, precredit, 1.1, 2, 3, 6),
		completion(s, "dcqcn", 1.2, 4, 2.9, 8),
		completion(s, "timely", 1.1, 4, 4, 8),
		completion(s, "hpcc", 1, 1.9, 2.8, 5),
	}
	got := Claims([][]*experiment.Summary{group}, precredit)
	want := []Claim{
		{rules[0].text, 7, 8, []string{"hadoop at 50 %, to 1MB, percentile 50: 3.00 against 2.90 of dcqcn"}},
		{rules[1].text, 0, 1, []string{"hadoop at 50 %, to 10KB, percentile 99: 2.00 against 1.90 of hpcc"}},
		// 3 is within 10 % of 2.8; four-case without pre-credit is no baseline.
		{rules[2].text, 1, 2, []string{"hadoop at 50 %, to 1MB, percentile 99: 6.00 against 5.00 of hpcc"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, c := range Claims([][]*experiment.Summary{group[:1]}, precredit) {
		if c.Cases != 0 {
			t.Errorf("without the scheme: %+v", c)
		}
	}
}
