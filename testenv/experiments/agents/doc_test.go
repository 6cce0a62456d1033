// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s: no part between %q and %q", path, start, end)
	}
	want := texts.FitMarkdown(Table())
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(before+start+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is not as in the source: UPDATE=1 go test ./testenv/experiments/agents -run Docs (-source +doc)\n%s", path, diff)
	}
}
