// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// OpenLocked opens or creates a file that its last user removes, and locks it by lock. The path leads to the file then: after a lock
// on one that another process has removed meanwhile, it begins again. Errors are *fs.PathError.
func OpenLocked(path string, mode fs.FileMode, lock func(fd uintptr) error) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, mode)
		if err != nil {
			return nil, err
		}
		if err := lock(f.Fd()); err != nil {
			f.Close()
			return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
		}
		if stillAt(f, path) {
			return f, nil
		}
		f.Close()
	}
}

// RemoveLocked removes a locked file, unless its path leads to that of another process meanwhile, and then ends the lock: otherwise
// two processes could have locks on different files of the same name.
func RemoveLocked(f *os.File, path string) {
	if stillAt(f, path) {
		_ = os.Remove(path)
	}
	f.Close()
}

// stillAt reports whether path still leads to the open file: another process may have removed or replaced it. A lock on a file
// whose path leads elsewhere protects nothing.
func stillAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}
