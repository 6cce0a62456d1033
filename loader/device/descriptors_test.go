// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device/limits"
)

// A process that may open no more files gets an error that says so, and its device goes on. The
// server keeps nothing of what failed.
func TestProcessWithoutDescriptors(t *testing.T) {
	dir := testkit.SocketDir(t)
	p := start(t, "server", dir)
	p.line("serves")
	d := open(t, dir)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	lowest, err := unix.Dup(0) // the first number that is free
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(lowest)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(lowest), Max: was.Max}, nil); err != nil {
		t.Fatal(err)
	}
	for range limits.Defaults().Process[limits.CQs] + 1 {
		if _, err = d.CreateCQ(1); err == nil || !strings.Contains(err.Error(), "RLIMIT_NOFILE") {
			break
		}
	}
	if e := unix.Prlimit(0, unix.RLIMIT_NOFILE, &was, nil); e != nil {
		t.Fatal(e)
	}
	if err == nil || !strings.Contains(err.Error(), "RLIMIT_NOFILE") {
		t.Errorf("a queue without a descriptor for its memory: %v", err)
	}
	if _, err := d.CreateCQ(1); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
