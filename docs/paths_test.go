// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pathPattern matches a path of this project in backquotes, as pages name packages and files.
var pathPattern = regexp.MustCompile("`(?:go [a-z]+ [^`]*?)?(?:\\./)?((?:bpf|cc|cmd|examples|hwoffload|internal|loader|mempool|packaging|rocev2|testenv)/[\\w./-]*\\w)")

// missingPaths returns the paths that a page names and that do not exist. A path may end with the name of something
// in the package (loader/engine.Open).
func missingPaths(root, page string) (missing []string) {
	for _, m := range pathPattern.FindAllStringSubmatch(page, -1) {
		path := m[1]
		base := regexp.MustCompile(`\.[A-Z]\w*(\.\w+)*$`).ReplaceAllString(path, "")
		if !exists(root, path) && !exists(root, base) && !slices.Contains(missing, path) {
			missing = append(missing, path)
		}
	}
	return missing
}

func exists(root, path string) bool {
	_, err := os.Stat(filepath.Join(root, strings.TrimSuffix(path, "/...")))
	return err == nil
}

// Packages and files that the pages name exist.
func TestPaths(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../README.md", "../CONTRIBUTING.md", "*.md", "*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range missingPaths("..", string(text)) {
			t.Errorf("%s: %s does not exist", page, path)
		}
	}
}

// Which names are paths, and which of them are missing.
func TestMissingPaths(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "loader", "engine"), 0o755); err != nil {
		t.Fatal(err)
	}
	page := "`loader/engine`, `loader/engine.Open`, `loader/gone`, `go test ./loader/gone2 -run X`, loader/not-quoted, `/run/loader/x`"
	if got := fmt.Sprint(missingPaths(root, page)); got != "[loader/gone loader/gone2]" {
		t.Error(got)
	}
}
