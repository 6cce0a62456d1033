// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/engines"
)

func TestMain(m *testing.M) { engines.Main(m) }

// page is what the test makes of the table.
const page = "../../docs/conformance.md"

// check is one line of the table. run observes something, and want is what verbs say that it sees.
type check struct {
	name   string
	source string // a clause of the IBTA specification, or a man page of libibverbs
	want   string
	run    func(w *world)
	but    map[string]limit // columns that do something else
}

// limit is what a column does instead, and why.
type limit struct {
	want   string // what is observed
	reason string // the cell of the page
}

// Every kind of device does what verbs say, or what the page says.
func TestConformance(t *testing.T) {
	var checks []check
	for _, s := range sections {
		checks = append(checks, s.checks...)
	}
	if len(checks) < 60 {
		t.Errorf("%d checks", len(checks))
	}
	for _, name := range columnNames {
		t.Run(name, func(t *testing.T) {
			made := makers[name](t)
			for _, c := range checks {
				t.Run(c.name, func(t *testing.T) {
					w := &world{column: made, t: t}
					want := c.want
					if l, ok := c.but[name]; ok {
						want = l.want
					}
					c.run(w)
					if got := w.seen(); got != want {
						t.Errorf("%s, want %s (%s)", got, want, c.source)
					}
				})
			}
		})
	}
}

// The page has the checks and the columns of the test. UPDATE=1 writes it.
func TestPage(t *testing.T) {
	want := render()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("%s is not that of the checks (%v): UPDATE=1 go test ./testenv/conformance -run Page", page, err)
	}
}

func render() string {
	var b, notes strings.Builder
	total, differ := 0, 0
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| Check | Source | Observed | %s |\n|---|---|---|%s\n", s.name, strings.Join(columnNames, " | "), strings.Repeat("---|", len(columnNames)))
		for _, c := range s.checks {
			total++
			fmt.Fprintf(&b, "| %s | %s | %s |", c.name, c.source, strings.ReplaceAll(c.want, "|", "\\|"))
			for _, name := range columnNames {
				cell := "yes"
				if l, ok := c.but[name]; ok {
					differ++
					cell = "no: " + l.reason
				}
				fmt.Fprintf(&b, " %s |", cell)
			}
			b.WriteByte('\n')
		}
	}
	fmt.Fprintf(&notes, pageHead, total, len(columnNames), total*len(columnNames)-differ, differ)
	return notes.String() + b.String()
}

const pageHead = `# Conformance

<!-- made by TestPage of testenv/conformance: UPDATE=1 go test ./testenv/conformance -run Page -->

These are %d checks of what verbs say, each on %d kinds of devices. Of the cells %d are yes, and %d are no. The test
` + "`TestConformance`" + ` of ` + "`testenv/conformance`" + ` runs every cell. It fails if a cell of this page is not what it observes.

The kinds of devices:

- engine: an engine in the process of the application, on an interface (package ` + "`rocev2/nic`" + `).
- device: the device that an agent serves, with memory of the process (package ` + "`rocev2/rdma/client`" + `).
- arena: the same device, with memory of the arena.
- loopback: the loopback device, whose queue pairs reach each other.
- card: two models of the card, joined by a network (package ` + "`hwoffload/verbsdev`" + `).

Source is a clause of the IBTA specification, volume 1, or a man page of libibverbs. Observed is what the check sees: the
numbers of work requests with the status of their completions, states of queue pairs, events, the errors of package
` + "`rocev2/verbs`" + `, and text from the memory. A yes means that the device does exactly this. A no has what it does instead.
`

// Names are unique, and limits are of columns.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sections {
		for _, c := range s.checks {
			if seen[c.name] || c.source == "" || c.want == "" {
				t.Errorf("%q: twice, or without a source, or nothing is observed", c.name)
			}
			seen[c.name] = true
			for name, l := range c.but {
				if !slices.Contains(columnNames, name) || l.reason == "" || l.want == c.want {
					t.Errorf("%q: the limit of %q", c.name, name)
				}
			}
		}
	}
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
