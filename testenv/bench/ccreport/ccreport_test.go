// SPDX-License-Identifier: Apache-2.0

package ccreport

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/cc/report"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// Every scenario with every scheme, shortened, gives the report that it gave before,
// figure by figure. UPDATE=1 writes it anew: read the difference before committing.
func TestQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for ten seconds")
	}
	dir := t.TempDir()
	if err := run(t.Context(), options{dir: dir, quick: true, jobs: 2, log: io.Discard, progress: io.Discard}); err != nil {
		t.Fatal(err)
	}
	got := read(t, filepath.Join(dir, "congestion-control.md"))
	const golden = "testdata/quick.md"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(read(t, golden), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the shortened report has changed (-before +now); UPDATE=1 takes it over, and `make cc-report` is due:\n%s", diff)
	}
}

// The committed report is of this library and these words.
func TestCommittedReport(t *testing.T) {
	text := read(t, "../../../docs/congestion-control.md")
	if !strings.Contains(text, report.Fingerprint()) {
		t.Error("docs/congestion-control.md was made from another library or template: run `make cc-report`")
	}
	if strings.Contains(text, "This is the shortened report") {
		t.Error("docs/congestion-control.md was made with --quick: run `make cc-report`")
	}
	library, err := scenario.Library()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range library {
		if s.Group == scenario.Control && !strings.Contains(text, "### "+s.Title+"\n") {
			t.Errorf("docs/congestion-control.md has no section of %s: run `make cc-report`", s.Name)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
