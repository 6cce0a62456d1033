// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
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
	if err := ccReport(t.Context(), ccReportOptions{dir: dir, quick: true, jobs: 2, log: io.Discard, progress: io.Discard}); err != nil {
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

// The committed report and its pictures are of these sources. If this fails, the page is
// older than the code that it measures: `make cc-report` (20 minutes), and commit docs/.
func TestCommittedReport(t *testing.T) {
	const docs = "../../docs/study/"
	text := read(t, docs+"congestion-control.md")
	sources, err := report.Fingerprint(".")
	if err != nil {
		t.Fatal(err)
	}
	made := "Made by `make cc-report`; do not edit. Sources: " + sources
	if !strings.Contains(text, made) {
		t.Error("docs/study/congestion-control.md is older than the code that it measures: run `make cc-report` and commit docs/")
	}
	linked := map[string]bool{}
	for _, m := range regexp.MustCompile(`\]\(img/([^)]*)\)`).FindAllStringSubmatch(text, -1) {
		linked[m[1]] = true
		if b, err := os.ReadFile(docs + "img/" + m[1]); err != nil || !strings.Contains(string(b), made) {
			t.Errorf("docs/study/img/%s is missing or older than the code that it measures: run `make cc-report` and commit docs/", m[1])
		}
	}
	pictures, err := filepath.Glob(docs + "img/cc-*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pictures {
		if !linked[filepath.Base(p)] {
			t.Errorf("docs/study/congestion-control.md does not show docs/study/img/%s: remove it", filepath.Base(p))
		}
	}
	if strings.Contains(text, "This is the shortened report") {
		t.Error("docs/study/congestion-control.md was made with --quick: run `make cc-report`")
	}
	library, err := scenario.Library()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range library {
		if s.Group == scenario.Control && !strings.Contains(text, "### "+s.Title+"\n") {
			t.Errorf("docs/study/congestion-control.md has no section of %s: run `make cc-report`", s.Name)
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
