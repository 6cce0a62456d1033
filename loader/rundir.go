// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// makeRunDir makes the run directory, and refuses one in which another user than root could place links: state,
// locks and socket are written there by root.
func makeRunDir(dir string) error {
	path, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	if err := checkRunDirWay(dir, path); err != nil { // before something is made behind a link
		return err
	}
	if err = os.MkdirAll(path, 0o755); err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	if err := checkRunDirOwner(path); err != nil {
		return err
	}
	return checkRunDirWay(dir, path)
}

// checkRunDirWay refuses a run directory if another user may replace a part of this path to it. What does not exist
// is nobody's.
func checkRunDirWay(dir, path string) error {
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err == nil && info.Mode()&os.ModeSymlink != 0 {
			if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
				return fmt.Errorf("run directory %s: user %d may replace it, who owns the link %s: use another --run-dir", dir, st.Uid, at)
			}
			info, err = os.Stat(at)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("run directory: %w", err)
		}
		if err == nil && at != path {
			if err := checkRunDirParent(dir, at, info); err != nil {
				return err
			}
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// checkRunDirParent refuses a directory above the run directory whose owner or writers may replace what is in it.
// Root and its group may. In a sticky directory only the owners of an entry and of the directory may.
func checkRunDirParent(dir, at string, info os.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	mode, sticky := info.Mode().Perm(), info.Mode()&os.ModeSticky != 0
	switch {
	case mode&0o002 != 0 && !sticky:
		return fmt.Errorf("run directory %s: every user may replace it, since %s has mode %04o: use another --run-dir, or chmod o-w %s", dir, at, mode, at)
	case !ok:
		return nil
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("run directory %s: user %d may replace it, who owns %s: use another --run-dir, or chown %s to root", dir, st.Uid, at, at)
	case mode&0o020 != 0 && !sticky && st.Gid != 0 && int(st.Gid) != os.Getegid():
		return fmt.Errorf("run directory %s: group %d may replace it, since %s has mode %04o: use another --run-dir, or chmod g-w %s",
			dir, st.Gid, at, mode, at)
	}
	return nil
}

// checkRunDirOwner refuses a directory that another user owns or may write to. Root's group may.
func checkRunDirOwner(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	switch {
	case !ok:
		return nil
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("run directory %s: it belongs to user %d, who could place links there: chown it to root, or use another --run-dir", path, st.Uid)
	case mode&0o002 != 0 || mode&0o020 != 0 && st.Gid != 0 && int(st.Gid) != os.Getegid():
		return fmt.Errorf("run directory %s: mode %04o lets other users place links there: chmod go-w it, or use another --run-dir", path, mode)
	}
	return nil
}
