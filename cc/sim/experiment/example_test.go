// SPDX-License-Identifier: Apache-2.0

package experiment_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// Four hosts send to one. The scenario has the criteria that a scheme must meet; each run of
// a scheme has a seed.
func Example() {
	s, err := scenario.Parse("incast.yaml", strings.NewReader(`
name: incast-4
title: Incast 4:1
about: Four hosts send to one over one switch.
topology: {kind: star, hosts: 5}
links: {host: 10Gbit/s, delay: 2us}
traffic:
  - flows: {from: 1-4, to: 0}
measure: {from: 10ms, to: 20ms, at: down 0, target: 25us, sample: 100us}
schemes: [fourcase]
criteria: {utilisation: ">= 0.9", jain: ">= 0.9", loss: "<= 1%"}
seeds: [1, 2]
`))
	if err != nil {
		log.Fatal(err)
	}
	schemes, err := experiment.Schemes(s, nil)
	if err != nil {
		log.Fatal(err)
	}
	jobs := experiment.Jobs(s, schemes)
	results, err := experiment.RunAll(context.Background(), jobs, 1, func(int, float64) {})
	if err != nil {
		log.Fatal(err)
	}
	for _, sum := range experiment.Summaries(jobs, results) {
		use, _ := sum.Median("utilisation")
		fmt.Printf("%s, %d runs: %.0f%% of the link in use, %d criteria missed\n",
			sum.Scheme, len(sum.Results), 100*use, len(sum.Missed()))
	}

	// Output:
	// fourcase, 2 runs: 100% of the link in use, 0 criteria missed
}
