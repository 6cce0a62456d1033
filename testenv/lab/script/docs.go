// SPDX-License-Identifier: Apache-2.0

package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/internal/texts"
)

// Paths of the pages of which parts are made from the source, in the repository.
const (
	OperationsPage = "docs/run/operations.md"
	TablesPage     = "docs/reference/tables.md"
	TransportPage  = "docs/change/transport.md"
)

// repository is the path of the repository from the directory of the package of a program.
const repository = "../.."

// ReadFile returns a file of the repository.
func ReadFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repository, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// CheckDoc compares, or writes with UPDATE=1, what stands between <!-- name --> and <!-- end -->.
func CheckDoc(t *testing.T, path string, parts map[string]string) {
	t.Helper()
	text := ReadFile(t, path)
	for name, want := range parts {
		want = texts.FitMarkdown(want)
		start := "<!-- " + name + " -->\n"
		before, rest, ok := strings.Cut(text, start)
		if !ok {
			t.Fatalf("%s has no marker %q", path, start)
		}
		got, after, ok := strings.Cut(rest, "<!-- end -->")
		if !ok {
			t.Fatalf("%s: %q has no end", path, name)
		}
		if os.Getenv("UPDATE") == "" {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s is not as in the source: UPDATE=1 go test ./cmd/... -run Docs (-source +doc)\n%s", path, name, diff)
			}
		}
		text = before + start + want + "<!-- end -->" + after
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(filepath.Join(repository, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
