// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// However much is written, two files remain, each within the bound, that hold the last
// lines without a gap; and what others write to the descriptor goes to the new file.
func TestBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "eth0.log")
	f, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := &logWriter{path: path, max: 1000, fds: []int{int(f.Fd())}, first: f}
	const lines = 500
	for i := range lines {
		if _, err := fmt.Fprintf(w, "line %04d\n", i); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprintln(f, "panic")
	old, err := os.ReadFile(path + ".1")
	if err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(old) > 1000 || len(now) > 1000+len("panic\n") {
		t.Errorf("%d and %d bytes, want at most 1000 each", len(old), len(now))
	}
	all := append(old, now...)
	n := bytes.Count(all, []byte("line"))
	var want bytes.Buffer
	for i := lines - n; i < lines; i++ {
		fmt.Fprintf(&want, "line %04d\n", i)
	}
	want.WriteString("panic\n")
	if n < 100 || !bytes.Equal(all, want.Bytes()) {
		t.Errorf("the last %d lines are not whole:\n%s", n, all)
	}
	if files, _ := filepath.Glob(path + "*"); len(files) != 2 {
		t.Errorf("files %v, want two", files)
	}
}

// A log that cannot be renamed goes on.
func TestNoRename(t *testing.T) {
	dir := t.TempDir()
	f, err := openLog(filepath.Join(dir, "eth0.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := &logWriter{path: filepath.Join(dir, "nosuch", "eth0.log"), max: 10, fds: []int{int(f.Fd())}, first: f}
	for range 3 {
		if n, err := w.Write([]byte("line no.\n")); n != 9 || err != nil {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
	}
}
