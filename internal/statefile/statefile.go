// SPDX-License-Identifier: Apache-2.0

// Package statefile stores what has to survive a restart.
package statefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces a file at once: after a crash it is the old or the new one. Its mode is 0600.
func Write(path string, b []byte) error { return WriteMode(path, b, 0o600) }

// WriteMode is Write with another mode, whatever the umask is.
func WriteMode(path string, b []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-") // each of two writers has its own
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
