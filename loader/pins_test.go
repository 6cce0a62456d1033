// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// bpffs refuses dots, and Linux lets an interface be called almost anything.
func TestEscapeName(t *testing.T) {
	for name, want := range map[string]string{
		"eth0": "eth0", "eth0.100": "eth0%2E100", "a%b": "a%25b", "x%2Ey": "x%252Ey",
	} {
		if got := escapeName(name); got != want {
			t.Errorf("escapeName(%q) = %q, want %q", name, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		escaped := escapeName(name)
		if strings.Contains(escaped, ".") {
			t.Fatalf("%q still has a dot", escaped)
		}
		if back := unescapeName(escaped); back != name {
			t.Fatalf("%q became %q", name, back)
		}
	})
}

func TestPinnedWithoutRoot(t *testing.T) {
	names, err := Pinned(filepath.Join(t.TempDir(), "nothing"))
	if err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
}

func TestEnsureBPFFSElsewhere(t *testing.T) {
	err := ensureBPFFS(filepath.Join(t.TempDir(), "pins"))
	if err == nil || !strings.Contains(err.Error(), "mount one there") {
		t.Errorf("a directory on another file system: %v", err)
	}
}

func TestRemovePins(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "eth0")
	if err := removePins(dir); err != nil {
		t.Errorf("nothing to remove: %v", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pin"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removePins(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
}
