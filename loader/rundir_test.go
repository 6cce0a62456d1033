// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A run directory in which another user could place links is refused before anything is written there.
func TestRunDirOfOthers(t *testing.T) {
	base := t.TempDir()
	dir := func(name string, mode os.FileMode, uid int) string {
		path := filepath.Join(base, name)
		if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		if uid != 0 && os.Getuid() == 0 {
			if err := os.Chown(path, uid, -1); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	type attempt struct{ path, want string }
	attempts := map[string]attempt{
		"everybody's":        {dir("open", 0o777, 0), "chmod go-w"},
		"a sticky one":       {dir("sticky", 0o777|os.ModeSticky, 0), "chmod go-w"},
		"below everybody's":  {filepath.Join(dir("open2", 0o777, 0), "run"), "every user may replace it"},
		"below a sticky one": {filepath.Join(dir("sticky2", 0o777|os.ModeSticky, 0), "run"), ""},
		"a usual one":        {filepath.Join(base, "new", "run"), ""},
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(dir("target", 0o777, 0), link); err != nil {
		t.Fatal(err)
	}
	attempts["a link to everybody's"] = attempt{link, "chmod go-w"}
	below := filepath.Join(base, "link2")
	if err := os.Symlink(filepath.Join(dir("open3", 0o777, 0), "run"), below); err != nil {
		t.Fatal(err)
	}
	dir("open3/run", 0o755, 0)
	attempts["a link to below everybody's"] = attempt{below, "every user may replace it"}
	if os.Getuid() == 0 {
		attempts["another user's"] = attempt{dir("other", 0o755, 12345), "chown it to root"}
		of := dir("groups", 0o775, 0)
		if err := os.Chown(of, 0, 12345); err != nil {
			t.Fatal(err)
		}
		attempts["another group's"] = attempt{of, "chmod go-w"}
		attempts["that of root's group"] = attempt{dir("roots", 0o775, 0), ""}
		attempts["below another user's"] = attempt{filepath.Join(dir("other2", 0o755, 12345), "run"), "user 12345 may replace it"}
		group := func(name string, mode os.FileMode, gid int) string {
			path := dir(name, mode, 0)
			if err := errors.Join(os.Chown(path, -1, gid), os.Chmod(path, mode)); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(path, "run")
		}
		attempts["below a group's"] = attempt{group("group", 0o775, 12345), "group 12345 may replace it"}
		attempts["below a group's sticky one"] = attempt{group("group2", 0o775|os.ModeSticky, 12345), ""}
		theirs := dir("other3", 0o755, 12345)
		links := dir("links", 0o777|os.ModeSticky, 0)
		for _, name := range []string{theirs, links} {
			link := filepath.Join(name, "link")
			if err := errors.Join(os.Symlink(dir("of"+filepath.Base(name), 0o755, 0), link), os.Lchown(link, 12345, 12345)); err != nil {
				t.Fatal(err)
			}
		}
		attempts["a link in another user's"] = attempt{filepath.Join(theirs, "link"), "user 12345 may replace it"}
		attempts["another user's link in a sticky one"] = attempt{filepath.Join(links, "link"), "user 12345 may replace it"}
		attempts["behind another user's link"] = attempt{filepath.Join(links, "link", "run"), "user 12345 may replace it"}
		attempts["below root's group's"] = attempt{group("group3", 0o775, 0), ""}
	}
	for name, a := range attempts {
		l, err := takeLease(a.path, "eth0", leaseControl)
		switch {
		case a.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case a.want != "" && (err == nil || !strings.Contains(err.Error(), a.want)):
			t.Errorf("%s: %v, want %q", name, err, a.want)
		}
		if err == nil {
			l.release()
		} else if names, _ := filepath.Glob(filepath.Join(a.path, "*")); len(names) != 0 {
			t.Errorf("%s: %q were written", name, names)
		}
	}
}

// A link in the place of a lock or of the temporary file of a state is not followed.
func TestLinksInRunDir(t *testing.T) {
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("victim"), 0o600); err != nil {
		t.Fatal(err)
	}
	state := statePath(dir, "eth0")
	for _, name := range []string{leasePath(dir, "eth0", leaseControl), state + ".new", state} {
		if err := os.Symlink(victim, name); err != nil {
			t.Fatal(err)
		}
	}
	if l, err := takeLease(dir, "eth0", leaseControl); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a lock that is a link: %v", err)
		if err == nil {
			l.release()
		}
	}
	if err := writeState(dir, State{Interface: "eth0"}); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(victim); string(b) != "victim" {
		t.Errorf("the target of the links has %q, %v", b, err)
	}
	if info, err := os.Lstat(state); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the state is no file: %v", err)
	}
}
