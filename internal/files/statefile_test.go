// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A shorter text replaces a longer one, others cannot read it, and no other file is left.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, text := range []string{"the first one", "second"} {
		if err := WriteState(path, []byte(text)); err != nil {
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
	path := filepath.Join(t.TempDir(), strings.Repeat("x", 255)) // no longer name is possible
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteState(path, []byte("new")); err == nil {
		t.Error("no error")
	}
	if b, _ := os.ReadFile(path); string(b) != "old" {
		t.Errorf("%q", b)
	}
}

// Of several writers at once, each replaces the file as a whole.
func TestWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	var all sync.WaitGroup
	for i := range 4 {
		text := bytes.Repeat([]byte{byte('a' + i)}, 10000*(i+1))
		all.Go(func() {
			for range 50 {
				if err := WriteState(path, text); err != nil {
					t.Error(err)
				}
				b, err := os.ReadFile(path)
				if err != nil || len(b) == 0 || len(b) != 10000*(1+int(b[0]-'a')) || bytes.Count(b, b[:1]) != len(b) {
					t.Errorf("%d bytes, %v", len(b), err)
				}
			}
		})
	}
	all.Wait()
	if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 1 {
		t.Errorf("%d files", len(list))
	}
}

// WriteStateMode sets the mode, whatever the umask is.
func TestWriteMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := WriteStateMode(path, []byte("text"), 0o664); err != nil {
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
	if err := WriteState(path, []byte("text")); err == nil {
		t.Error("no error")
	}
	if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 1 {
		t.Errorf("%d files", len(list))
	}
}
