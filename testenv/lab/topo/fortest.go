// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// RequireRoot skips a test that cannot run without privileges.
func RequireRoot(t testing.TB) {
	t.Helper()
	require.Root(t)
}

// ForTest builds a topology that is closed when the test ends, however it ends.
// Without root the test is skipped.
func ForTest(t testing.TB, spec Spec) *Topology {
	t.Helper()
	RequireRoot(t)
	top, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := top.Close(); err != nil {
			t.Errorf("take the topology down: %v", err)
		}
	})
	return top
}
