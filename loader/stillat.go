// SPDX-License-Identifier: Apache-2.0

package loader

import "os"

// StillAt reports whether path still leads to the open file: another process may have removed or replaced it. A lock on a file
// whose path leads elsewhere protects nothing.
func StillAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}
