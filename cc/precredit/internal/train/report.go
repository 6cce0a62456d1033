// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// score counts answers.
type score struct{ flows, right, small, smallRight, posted, majority int }

// scores tells how often the tree is right, next to two answers that need no training:
// "small if what was posted fits the first round trip", and "always what is more
// frequent".
func scores(t []node, flows []sample) (s score) {
	for _, f := range flows {
		s.flows++
		said := predict(t, f.x) == precredit.Small
		if said == f.small {
			s.right++
		}
		if f.small {
			s.small++
			if said {
				s.smallRight++
			}
		}
		if (f.x[1] <= 0) == f.small {
			s.posted++
		}
	}
	s.majority = max(s.small, s.flows-s.small)
	return s
}

func pick(flows []sample, keep func(sample) bool) (out []sample) {
	for _, f := range flows {
		if keep(f) {
			out = append(out, f)
		}
	}
	return out
}

// report prints how the tree does on flows that it was not grown from.
func report(w io.Writer, t []node) error {
	test := dataset(testSeed, perSizes)
	percent := func(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }
	fmt.Fprintf(w, "| flows | total size | number | tree | of the small | of the large | posted <= BDP | always the same |\n|---|---|---|---|---|---|---|---|\n")
	line := func(name, size string, flows []sample) {
		s := scores(t, flows)
		largeRight := s.right - s.smallRight
		fmt.Fprintf(w, "| %s | %s | %d | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %.1f %% |\n", name, size, s.flows,
			percent(s.right, s.flows), percent(s.smallRight, s.small), percent(largeRight, s.flows-s.small),
			percent(s.posted, s.flows), percent(s.majority, s.flows))
	}
	for _, known := range []bool{true, false} {
		size := map[bool]string{true: "known", false: "unknown"}[known]
		for i, c := range scenario.All() {
			line(c.Name, size, pick(test, func(s sample) bool { return s.known == known && s.sizes == i }))
		}
		line("all", size, pick(test, func(s sample) bool { return s.known == known }))
	}
	line("all", "both", test)
	leaves := 0
	for _, n := range t {
		if n.right == 0 {
			leaves++
		}
	}
	_, err := fmt.Fprintf(w, "\n%d leaves, at most %d comparisons.\n", leaves, maxDepth)
	return err
}
