// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"os"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/texts"
)

// docs/run/administrator.md has the table of the situations. UPDATE=1 writes it.
func TestDocsTable(t *testing.T) {
	const (
		path  = "../../../docs/run/administrator.md"
		start = "<!-- situations: made from testenv/experiments/agents/table.go -->\n"
		end   = "<!-- end -->"
	)
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), start)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s: no part between %q and %q", path, start, end)
	}
	testkit.Golden(t, path, before+start+texts.FitMarkdown(Table())+end+after)
}
