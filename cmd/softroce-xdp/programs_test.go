// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file next to softroce-xdp that cannot be executed is an error, and the program in PATH is not used.
func TestScriptsSiblingNotExecutable(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := sibling{name: "not-executable"}
	adjacent := filepath.Join(filepath.Dir(self), s.program())
	if err := os.WriteFile(adjacent, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(adjacent)
	inPath := t.TempDir()
	if err := os.WriteFile(filepath.Join(inPath, s.program()), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", inPath)

	path, err := s.find()
	if err == nil || !strings.HasPrefix(err.Error(), adjacent+" cannot be executed: permission denied: ") {
		t.Fatalf("found %q: %v", path, err)
	}
	if err := os.Remove(adjacent); err != nil {
		t.Fatal(err)
	}
	if path, err = s.find(); err != nil || path != filepath.Join(inPath, s.program()) {
		t.Fatalf("found %q in PATH: %v", path, err)
	}
}
