// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The package comment names each file, and no file that is not there.
func TestDocNamesFiles(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\w+\.go\b`).FindAllString(string(text), -1)
	for _, f := range files {
		if f != "doc.go" && !strings.HasSuffix(f, "_test.go") && !strings.HasPrefix(f, "prefetch_") && !slices.Contains(named, f) {
			t.Errorf("doc.go does not name %s", f)
		}
	}
	for _, f := range named {
		if !slices.Contains(files, f) {
			t.Errorf("doc.go names %s, which is not there", f)
		}
	}
}
