// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// The error of a kernel that is too old names the features that it lacks.
func TestExplainFeatures(t *testing.T) {
	err := explainFeatures(neededFeatures&^(featurePoison|featureWPShmem), "5.15.0", unix.EINVAL)
	for _, want := range []string{"5.15.0", "poison (Linux 6.6)", "write protection of shared memory", "use Linux 6.6 or newer, or a Region"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not have %q", err, want)
		}
	}
	if !errors.Is(err, ErrUnsupported) {
		t.Errorf("%v is not ErrUnsupported", err)
	}
}

// The kernel refuses features that it does not have, as one before Linux 6.6 refuses poison.
func TestUnknownFeature(t *testing.T) {
	u, err := openUFFD()
	if err != nil {
		require.Skip(t, err.Error())
	}
	defer unix.Close(int(u))
	if _, err := u.enable(neededFeatures | 1<<63); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a feature that no kernel has: %v", err)
	}
}

// The error of a process without the right says how to get it.
func TestExplainOpen(t *testing.T) {
	for errno, want := range map[unix.Errno]string{
		unix.EPERM:  "sysctl vm.unprivileged_userfaultfd=1",
		unix.ENOSYS: "CONFIG_USERFAULTFD",
	} {
		if err := explainOpen(errno); !errors.Is(err, ErrUnsupported) || !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %q", errno, err)
		}
	}
}
