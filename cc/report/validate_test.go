// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"
)

// check fails for each row that departs from what was published.
func check(t *testing.T, rows []Row, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		t.Fatal("no rows")
	}
	for _, r := range rows {
		if !r.OK && !r.Aside {
			t.Errorf("%s %s, %s: published %v, ours %.4g (%s)", r.ID, r.What, r.Scheme, r.Paper, r.Ours, r.Note)
		}
	}
	if t.Failed() {
		var b strings.Builder
		Table(&b, rows)
		t.Log("\n" + b.String())
	}
}

// TestSmallFlows is V1 and V2 with an eighth of the traffic: four schemes in the
// published order, magnitudes within the tolerance of each row. Those without a
// window need longer to fill the queues.
func TestSmallFlows(t *testing.T) {
	rows, err := first(completions[0], 2, 4).run(1./8, 2, func(s string) { t.Log(s) })
	check(t, rows, err)
}

// first is a completion with its first so many published rows and schemes.
func first(c validateCompletion, published, schemes int) *validateCompletion {
	c.schemes = c.schemes[:schemes]
	c.published = slices.Clone(c.published[:published])
	for i := range c.published {
		c.published[i].values = c.published[i].values[:schemes]
	}
	return &c
}

// TestWindowTamesIncast is the heart of V6: without a limit on bytes in flight an
// incast pauses the network and small flows wait for milliseconds.
func TestWindowTamesIncast(t *testing.T) {
	c := completions[2]
	c.schemes = []string{"dcqcn", "dcqcn-no-window"}
	c.published = slices.Clone(c.published)
	c.published[0].values = []Range{at(5.2), at(192)}
	rows, err := c.run(1./4, 2, func(s string) { t.Log(s) })
	check(t, rows, err)
}

// TestFewFlows is V7, V8 and parts of V9 and of the credit schemes.
func TestFewFlows(t *testing.T) {
	scale := map[string]float64{
		"2:1 incast": .25, "late joiner": .25, "N flows": 1, "more flows than packets": .5, "credits, incast": 1, "credits, convergence": 1, "credits, first round trip": .25,
	}
	for name, s := range scale {
		i := slices.IndexFunc(controls(s), func(e validation) bool { return e.name == name })
		if i < 0 {
			t.Fatalf("no experiment %q", name)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, err := controls(s)[i].run()
			check(t, rows, err)
		})
	}
	if len(scale) != len(controls(1)) {
		t.Error("an experiment is not tested")
	}
}

func TestRowsDoNotDependOnWorkers(t *testing.T) {
	c := first(completions[0], 1, 2)
	one, err := c.run(1./80, 1, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	two, err := c.run(1./80, 2, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(one, two) {
		t.Errorf("one worker: %v\ntwo: %v", one, two)
	}
}
