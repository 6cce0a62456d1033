// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

const root = "../../../"

// The table of docs/run/security.md is that of this package. UPDATE=1 writes it.
func TestPage(t *testing.T) {
	const page, begin, end = root + "docs/run/security.md", "<!-- forgeries: made by TestPage of testenv/lab/samples -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatal("the page has no place for the table")
	}
	testkit.Golden(t, page, before+begin+table()+end+after)
}

func table() string {
	var b strings.Builder
	b.WriteString("\n| packet | peer that stamps: needs | packets | other peers: needs | packets | effect | counter | tests |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range Rows {
		var tests []string
		for _, x := range r.Tests {
			tests = append(tests, x.Name)
		}
		fmt.Fprintf(&b, "| %s | %v | %s | %v | %s | %s | %s | %s |\n", r.Kind, r.Stamping, r.Stamping.Packets(), r.Plain, r.Plain.Packets(),
			r.Effect, code(r.Counters), code(tests))
	}
	b.WriteString("\n")
	return b.String()
}

func code(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

// Each test that a row names exists, and names the row.
func TestRowsAreTried(t *testing.T) {
	for _, r := range Rows {
		if len(r.Tests) == 0 {
			t.Errorf("%s: no test", r.Kind)
		}
		for _, x := range r.Tests {
			files, err := filepath.Glob(root + x.Dir + "/*_test.go")
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(files, func(f string) bool {
				b, err := os.ReadFile(f)
				return err == nil && strings.Contains(string(b), "func "+x.Name+"(") && strings.Contains(string(b), strconv.Quote(r.Kind))
			}) {
				t.Errorf("%s: %s of %s does not try it", r.Kind, x.Name, x.Dir)
			}
		}
	}
}

func TestPackets(t *testing.T) {
	for want, n := range map[string]Needs{"1": nil, "2^63": {Token}, "2^45": {QPN, PSN}} {
		if got := n.Packets(); got != want {
			t.Errorf("%v: %s, want %s", n, got, want)
		}
	}
}
