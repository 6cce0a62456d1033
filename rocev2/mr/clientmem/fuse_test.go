// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// fuseControl mounts the control file system of FUSE.
func fuseControl(t *testing.T) string {
	t.Helper()
	require.Root(t)
	control := t.TempDir()
	if err := unix.Mount("fusectl", control, "fusectl", 0, ""); err != nil {
		require.Skip(t, "needs FUSE: "+err.Error())
	}
	t.Cleanup(func() { _ = unix.Unmount(control, 0) })
	return control
}

// fuseSystems are those of fuseUser that are there.
func fuseSystems(t *testing.T, control string) (all []FileSystem) {
	t.Helper()
	systems, err := FileSystems(control)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range systems {
		if f.User == fuseUser {
			all = append(all, f)
		}
	}
	return all
}

// An access to a mapping of a FUSE file system whose process does not answer waits, which the guard sees. The
// mappings of the process name that file system among all of its user, also while the access waits, and its end
// ends the access with an error. Others go on.
func TestUnansweredFUSE(t *testing.T) {
	control := fuseControl(t)
	if _, err := FileSystems(t.TempDir()); err == nil || !strings.Contains(err.Error(), "mount -t fusectl") {
		t.Errorf("another directory: %v", err)
	}
	before := len(fuseSystems(t, control))
	bystander := startApplicationWith(t, unix.CLONE_NEWNS)
	a := startApplicationWith(t, unix.CLONE_NEWNS)
	t.Cleanup(func() { // before the processes are killed: their end may wait too
		for _, f := range fuseSystems(t, control) {
			_ = f.Abort()
		}
	})
	bystander.mapped("fuse", 1)
	addr := a.mapped("fuse", 1)
	if n := len(fuseSystems(t, control)); n != before+2 {
		t.Fatalf("%d file systems, want two more than %d", n, before)
	}
	done := make(chan error, 1)
	go func() { done <- a.Check(addr, 8, 0) }()
	if err := testkit.Receive(t, "a registration does not wait for the file system", done); !errors.Is(err, ErrNotPresent) {
		t.Errorf("registration: %v", err)
	}
	go func() { done <- a.ReadAt(make([]byte, 8), addr) }()
	var g Guard
	testkit.Eventually(t, "the guard acts", func() bool {
		select {
		case err := <-done:
			t.Fatalf("the access has ended: %v", err)
		default:
		}
		return g.Sample(a.Progress(), func() bool { return a.Delays(time.Now()) })
	})
	a.Revoke()
	m, err := a.Maps()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	devices, err := m.Devices()
	if err != nil {
		t.Fatal(err)
	}
	ended := 0
	for _, f := range fuseSystems(t, control) {
		if f.Waiting() != devices[f.Device] {
			t.Errorf("file system %d: waiting %v, mapped %v", f.Device, f.Waiting(), devices[f.Device])
		}
		if devices[f.Device] {
			ended++
			if err := f.Abort(); err != nil {
				t.Error(err)
			}
		}
	}
	if ended != 1 {
		t.Errorf("%d file systems are mapped, want 1", ended)
	}
	if err := testkit.Receive(t, "the access ends", done); !errors.Is(err, ErrUnmapped) {
		t.Error(err)
	}
}
