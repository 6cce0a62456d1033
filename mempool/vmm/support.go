// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrUnsupported: this kernel, or the rights of this process, do not allow a map. Region works
// without both.
var ErrUnsupported = errors.New("maps are not possible here")

// Supported returns nil if this process can make a map. The error wraps ErrUnsupported, and has
// the reason and what to do.
func Supported() error {
	u, err := newUFFD()
	if err != nil {
		return err
	}
	return unix.Close(int(u))
}

// newUFFD opens a userfaultfd with the needed features.
func newUFFD() (uffd, error) {
	u, err := openUFFD()
	if err != nil {
		return -1, explainOpen(err)
	}
	if _, err = u.enable(neededFeatures); err == nil {
		return u, nil
	}
	_ = unix.Close(int(u))
	if u, openErr := openUFFD(); openErr == nil { // what is missing
		has, _ := u.enable(0)
		_ = unix.Close(int(u))
		return -1, explainFeatures(has, release(), err)
	}
	return -1, explainFeatures(0, release(), err)
}

func explainOpen(err error) error {
	todo := "use a Region"
	switch {
	case errors.Is(err, unix.EPERM):
		todo = "run as root, give the process CAP_SYS_PTRACE, give its group access to /dev/userfaultfd, " +
			"or set sysctl vm.unprivileged_userfaultfd=1; a Region needs none of them"
	case errors.Is(err, unix.ENOSYS):
		todo = "use a kernel with CONFIG_USERFAULTFD, or a Region"
	}
	return fmt.Errorf("vmm: %w: userfaultfd: %w; %s", ErrUnsupported, err, todo)
}

func explainFeatures(has uint64, release string, err error) error {
	var missing []string
	for _, f := range []struct {
		bit  uint64
		name string
	}{
		{featureFlagWP, "write protection"},
		{featureMissingShmem, "shared memory"},
		{featureWPShmem, "write protection of shared memory (Linux 5.19)"},
		{featurePoison, "poison (Linux 6.6)"},
	} {
		if has&f.bit == 0 {
			missing = append(missing, f.name)
		}
	}
	return fmt.Errorf("vmm: %w: the userfaultfd of kernel %s has no %s (%w); use Linux 6.6 or newer, or a Region",
		ErrUnsupported, release, strings.Join(missing, ", no "), err)
}

func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}
