// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Only root may be able to change a library; the sticky bit protects the entries of directories above that of the library.
func TestOthersChange(t *testing.T) {
	for _, c := range []struct {
		mode     uint32
		uid, gid uint32
		above    bool
		want     bool
	}{
		{mode: unix.S_IFREG | 0o755},
		{mode: unix.S_IFREG | 0o775},
		{mode: unix.S_IFREG | 0o775, gid: 5, want: true},
		{mode: unix.S_IFREG | 0o755, uid: 5, want: true},
		{mode: unix.S_IFREG | 0o1666, want: true},
		{mode: unix.S_IFDIR | 0o1777, want: true},
		{mode: unix.S_IFDIR | 0o1777, above: true},
		{mode: unix.S_IFDIR | 0o1775, gid: 5, above: true},
		{mode: unix.S_IFDIR | 0o777, above: true, want: true},
		{mode: unix.S_IFDIR | 0o1777, uid: 5, above: true, want: true},
	} {
		if got := othersChange(&unix.Stat_t{Mode: c.mode, Uid: c.uid, Gid: c.gid}, c.above); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

// A directory is refused if LD_LIBRARY_PATH with it would be another list; a link to a directory is followed first.
func TestFindLibraryNames(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		good bool
	}{
		{"lib", true}, {"a b=c,d", true}, {"a:b", false}, {"a;b", false}, {"$LIB", false}, {"a\nb", false},
	} {
		dir := filepath.Join(top, c.name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, verbsLibrary), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(top, "link")
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		for _, named := range []string{dir, link} {
			got, err := findLibrary(named)
			if c.good && (got != dir || err != nil) || !c.good && (err == nil || !strings.Contains(err.Error(), "another directory")) {
				t.Errorf("%q: %q, %v", named, got, err)
			}
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
}
