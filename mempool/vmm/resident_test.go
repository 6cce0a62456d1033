// SPDX-License-Identifier: Apache-2.0

package vmm_test

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/softroce/softroce-xdp/mempool/vmm"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// Handler and guardian of root are locked in memory; the memory of the map is not.
func TestProcessesAreResident(t *testing.T) {
	require.Root(t)
	m := newMap(t, vmm.Config{Size: 1 << 20}, "")
	locked := func(pid int) bool {
		t.Helper()
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`(?m)^VmLck:\s+[1-9]`).Match(b)
	}
	if handler := m.HandlerPID(); !locked(handler) || !locked(guardianPID(t, handler)) {
		t.Error("handler or guardian may be swapped out")
	}
	if locked(os.Getpid()) {
		t.Error("the memory of the application is locked")
	}
}
