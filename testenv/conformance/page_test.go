// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/texts"
)

// page is made of the cells.
const page = "../../docs/reference/conformance.md"

// comparePage compares the page with the cells. UPDATE=1 writes it.
func comparePage(t *testing.T, cells table) {
	t.Helper()
	text, err := render(cells)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, page, text)
}

// render makes the page. A cell that is missing is an error.
func render(cells table) (string, error) {
	var b strings.Builder
	lines, offered := 0, 0
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| check | source | demanded | %s |\n|---|---|---|%s\n", s.name, strings.Join(columnNames, " | "), strings.Repeat("---|", len(columnNames)))
		for _, c := range s.checks {
			lines++
			fmt.Fprintf(&b, "| %s | %s | %s |", c.name, c.source, strings.ReplaceAll(c.want, "|", `\|`))
			for _, column := range columnNames {
				cell := cells[[2]string{c.name, column}]
				switch cell {
				case "":
					return "", fmt.Errorf("%q has no cell of column %s", c.name, column)
				case asVerbsSay:
					offered++
				}
				fmt.Fprintf(&b, " %s |", strings.ReplaceAll(cell, "|", `\|`))
			}
			b.WriteByte('\n')
		}
	}
	return fmt.Sprintf(pageHead, lines, len(columnNames), offered, lines*len(columnNames)-offered) + texts.FitMarkdown(b.String()), nil
}

// Without a cell there is no page.
func TestRender(t *testing.T) {
	cells := table{}
	for _, c := range checks() {
		for _, column := range columnNames {
			cells[[2]string{c.name, column}] = asVerbsSay
		}
	}
	text, err := render(cells)
	if n := strings.Count(text, "| "+asVerbsSay+" "); err != nil || n != len(cells) {
		t.Errorf("%d cells of %d, %v", n, len(cells), err)
	}
	delete(cells, [2]string{checks()[7].name, "card"})
	if text, err := render(cells); err == nil || text != "" {
		t.Errorf("%q, %v", text, err)
	}
}

const pageHead = `# Conformance

<!-- made by TestConformance of testenv/conformance: UPDATE=1 go test ./testenv/conformance -->

This page has %d checks of verbs, each on %d kinds of devices.
Of the cells, %d say "yes", and %d "not offered".
TestConformance of ` + "`testenv/conformance`" + ` runs each check on each device, and makes the page of what it sees (root).

The kinds of devices are:

- engine: an engine in the process of the application, on an interface.
- device: the device that an agent serves, with memory of the process.
- arena: the device that an agent serves, with memory of its arena.
- loopback: the loopback device of a process, whose queue pairs reach each other.
- card: two software models of the card, joined by a network on virtual time.

The columns of the tables are:

- source: sections of volume 1 of the InfiniBand architecture specification (IBTA), and man pages of libibverbs.
- demanded: what the source demands, as the check sees it.
  A number and a status are a work request and its completion.
  Other words are states of queue pairs, events, errors of package ` + "`rocev2/verbs`" + `, and values that the check compares.
- each device: "yes" if exactly that was seen, or "not offered" and the error of the device.
  Anything else fails the test, and the page stays as it was.

All checks use IPv4, and two devices of the same kind; loopback is one device.
The queue pairs of package ` + "`verbs`" + ` always report a drained send queue: ibv_modify_qp(3) has an attribute for it.
[development.md](../change/development.md) says where verbs are compared with those of rxe.
`
