// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// DocNamesFiles checks that the package comment in doc.go of the test's package names each of its files without
// tests, and no file that is not there. Files for one architecture may be left out.
func DocNamesFiles(t testing.TB) {
	t.Helper()
	text := Must1(os.ReadFile("doc.go"))(t)
	files := Must1(filepath.Glob("*.go"))(t)
	named := regexp.MustCompile(`\w+\.go\b`).FindAllString(string(text), -1)
	for _, f := range files {
		left := f == "doc.go" || strings.HasSuffix(f, "_test.go") || strings.HasSuffix(f, "_amd64.go") || strings.HasSuffix(f, "_other.go")
		if !left && !slices.Contains(named, f) {
			t.Errorf("doc.go does not name %s", f)
		}
	}
	for _, f := range named {
		if !slices.Contains(files, f) {
			t.Errorf("doc.go names %s, which is not there", f)
		}
	}
}
