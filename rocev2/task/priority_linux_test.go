// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// Kernels run at the lowest priority if they are wanted in the background, and otherwise at the priority of the
// process, which other threads keep.
func TestBackground(t *testing.T) {
	policy := func() int {
		a := testkit.Must1(unix.SchedGetAttr(0, 0))(t)
		return int(a.Policy)
	}
	own := policy()
	for _, background := range []bool{false, true} {
		seen := -1
		w := newWorld(t, Config{Cores: 1, Background: background, Kernels: with(t, func(context.Context, *Descriptor, [][]byte, []byte) error {
			seen = policy()
			return nil
		})})
		want(t, "task", w.run(Descriptor{Kernel: FirstOwnKernel, Result: w.operand(make([]byte, 1), Uint8, scalar)}), StatusOK)
		wanted := own
		if background {
			wanted = unix.SCHED_IDLE
		}
		if seen != wanted || policy() != own {
			t.Errorf("background %v: policy %d of the core, %d of the test, which had %d", background, seen, policy(), own)
		}
	}
}
