// SPDX-License-Identifier: Apache-2.0

// Package docs checks the documentation against the tree.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the repository.
const root = ".."

var requirement = regexp.MustCompile(`\bS[0-9]\.[0-9]+\b`)

// TestRequirements checks that docs/change/requirements.md defines every requirement number
// that the tree uses.
func TestRequirements(t *testing.T) {
	page, err := os.ReadFile("change/requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	defined := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (\S+)$`).FindAllStringSubmatch(string(page), -1) {
		if defined[m[1]] {
			t.Errorf("docs/change/requirements.md defines %s twice", m[1])
		}
		defined[m[1]] = true
	}
	used := 0
	for _, path := range sources(t, root, ".go", ".h", ".c", ".md", ".txt", ".txtar") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, number := range requirement.FindAllString(line, -1) {
				used++
				if !defined[number] {
					t.Errorf("%s:%d: requirement %s is not defined in docs/change/requirements.md", path, i+1, number)
				}
			}
		}
	}
	if used < 100 {
		t.Errorf("only %d requirement numbers found in the tree: is %q the repository?", used, root)
	}
}

// sources returns the files below dir that have one of the endings. It skips what git
// does not keep: build output and hidden directories.
func sources(t *testing.T, dir string, endings ...string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != dir && (strings.HasPrefix(name, ".") || name == "bin" || name == "out") {
				return filepath.SkipDir
			}
			return nil
		}
		for _, ending := range endings {
			if strings.HasSuffix(name, ending) {
				found = append(found, path)
				break
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
