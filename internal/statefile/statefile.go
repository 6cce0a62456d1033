// SPDX-License-Identifier: Apache-2.0

// Package statefile stores what has to survive a restart.
package statefile

import (
	"errors"
	"os"
)

// Write replaces a file at once: after a crash it is the old or the new one. Its mode is 0600.
func Write(path string, b []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
