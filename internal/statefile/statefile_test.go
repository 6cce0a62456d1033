// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"os"
	"path/filepath"
	"testing"
)

// A shorter text replaces a longer one, others cannot read it, and no other file is left.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, text := range []string{"the first one", "second"} {
		if err := Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("%q, %v; want %q", b, err, text)
		}
	}
	if i, err := os.Stat(path); err != nil || i.Mode() != 0o600 {
		t.Errorf("%v, %v", i.Mode(), err)
	}
	if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 1 {
		t.Errorf("%d files", len(list))
	}
}

// A file that cannot be written leaves the old one as it is.
func TestWriteFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := Write(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new")); err == nil {
		t.Error("no error")
	}
	if b, _ := os.ReadFile(path); string(b) != "old" {
		t.Errorf("%q", b)
	}
}

// WriteMode sets the mode, also where a crash has left a file with another one, and whatever the umask is.
func TestWriteMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path+".new", []byte("a longer text of a writer that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteMode(path, []byte("text"), 0o664); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
	if i, err := os.Stat(path); err != nil || i.Mode() != 0o664 {
		t.Errorf("%v, %v", i.Mode(), err)
	}
}

// A file that cannot be replaced leaves no other file.
func TestNotReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "directory")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("text")); err == nil {
		t.Error("no error")
	}
	if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 1 {
		t.Errorf("%d files", len(list))
	}
}
