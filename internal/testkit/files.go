// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"os"
	"testing"
)

// SocketDir returns an empty directory that is removed when the test ends. Its path is short enough for Unix sockets,
// whose paths have at most 107 bytes: that of t.TempDir contains the name of the test.
func SocketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sr")
	Must(t, err)
	t.Cleanup(func() { Must(t, os.RemoveAll(dir)) })
	return dir
}
