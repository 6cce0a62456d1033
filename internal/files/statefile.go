// SPDX-License-Identifier: Apache-2.0

package files

// This file stores what has to survive a restart.

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteState replaces a file at once: after a crash it is the old or the new one. Its mode is 0600.
func WriteState(path string, b []byte) error { return WriteStateMode(path, b, 0o600) }

// WriteStateMode is Write with another mode, whatever the umask is.
func WriteStateMode(path string, b []byte, mode fs.FileMode) error {
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
