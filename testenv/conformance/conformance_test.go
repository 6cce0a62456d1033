// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

func TestMain(m *testing.M) { engines.Main(m) }

// check is one line of the table. run observes something, and want is what verbs say that it sees.
type check struct {
	name   string
	source string // sections of volume 1 of the IBTA specification, man pages of libibverbs
	want   string
	run    func(w *world)
	lacks  []string // columns that do not offer it, and say so by errors.ErrUnsupported
}

// section is a part of the page.
type section struct {
	name   string
	checks []check
}

var sections = []section{
	{"Queue pairs", stateChecks}, {"Posting", postChecks}, {"SEND and receive", sendChecks}, {"WRITE, READ and atomic operations", remoteChecks},
	{"Memory and windows", memoryChecks}, {"Completion queues", completionChecks}, {"Shared receive queues", sharedChecks},
	{"Retries", retryChecks}, {"Datagrams and UC", datagramChecks},
}

// checks are those of all sections.
func checks() (all []check) {
	for _, s := range sections {
		all = append(all, s.checks...)
	}
	return all
}

// Cells of the page. Any other result is an error of the test.
const (
	asVerbsSay = "yes"
	notOffered = "not offered: " // and the text of the error
)

// table has the cells of the page, by the name of the check and the column.
type table map[[2]string]string

// Every kind of device does what verbs say, and docs/reference/conformance.md says where one does not offer it.
func TestConformance(t *testing.T) {
	cells := table{}
	for _, column := range columnNames {
		t.Run(column, func(t *testing.T) {
			made := makers[column](t)
			for _, c := range checks() {
				t.Run(c.name, func(t *testing.T) {
					w := &world{column: made, t: t}
					c.run(w)
					cell, err := c.judge(column, w.seen())
					if err != nil {
						t.Fatal(err)
					}
					cells[[2]string{c.name, column}] = cell
				})
			}
		})
	}
	if t.Failed() || strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return // not all cells are there
	}
	require.Root(t) // otherwise columns were skipped
	comparePage(t, cells)
}

// judge returns the cell of a column, given what was seen there.
func (c *check) judge(column, seen string) (cell string, err error) {
	switch lacks := slices.Contains(c.lacks, column); {
	case lacks && strings.HasPrefix(seen, notOffered):
		return seen, nil
	case !lacks && seen == c.want:
		return asVerbsSay, nil
	case lacks:
		return "", fmt.Errorf("%s, want %s and an error", seen, notOffered)
	}
	return "", fmt.Errorf("%s, want %s (%s)", seen, c.want, c.source)
}

// The cells are what was seen, and nothing else passes.
func TestJudge(t *testing.T) {
	c := check{want: "ok", lacks: []string{"card"}}
	for _, x := range []struct{ column, seen, cell string }{
		{"engine", "ok", asVerbsSay}, {"engine", "refused", ""}, {"engine", "", ""}, {"engine", notOffered + "no", ""},
		{"card", notOffered + "no", notOffered + "no"}, {"card", "ok", ""}, {"card", "refused", ""},
	} {
		if cell, err := c.judge(x.column, x.seen); cell != x.cell || (err == nil) != (x.cell != "") {
			t.Errorf("%+v: %q, %v", x, cell, err)
		}
	}
}

var sourceSyntax = regexp.MustCompile(`^(IBTA (A17|\d+\.\d+(\.\d+)?)(, \d+\.\d+(\.\d+)?)*(, |$))?(ibv_[a-z_]+\(3\))?$`)

// There are enough checks, each with a name of its own, a source and something to see.
func TestChecks(t *testing.T) {
	all := checks()
	if len(all) < 60 {
		t.Errorf("%d checks", len(all))
	}
	seen := map[string]bool{}
	for _, c := range all {
		if seen[c.name] || c.source == "" || !sourceSyntax.MatchString(c.source) || c.want == "" || strings.Contains(c.name, "/") {
			t.Errorf("%q: twice, or the source is %q, or nothing is seen", c.name, c.source)
		}
		seen[c.name] = true
		for _, column := range c.lacks {
			if !slices.Contains(columnNames, column) {
				t.Errorf("%q: no column %s", c.name, column)
			}
		}
	}
}
