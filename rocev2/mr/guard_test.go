// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/mem"
)

// A registered mapping of a file that is truncated: what is gone fails, what is there
// still works, nobody dies, and the region can be deregistered.
func TestTruncatedMapping(t *testing.T) {
	page := os.Getpagesize()
	f, err := os.Create(filepath.Join(t.TempDir(), "memory"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(2 * page)); err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	table := newTable(t)
	pd := table.AllocPD()
	r := register(t, table, Spec{PD: pd, Host: b, Access: everything})
	gone := r.VA() + uint64(page)
	data := make([]byte, 64)
	try := func(what string, at uint64, want mem.Fault) {
		t.Helper()
		wantFault(t, what+": remote write", table.WriteRemote(pd, 1, r.RKey(), at, data), want)
		wantFault(t, what+": remote read", table.ReadRemote(pd, 1, r.RKey(), at, data), want)
		wantFault(t, what+": local write", table.WriteLocal(pd, r.LKey(), at, data), want)
		wantFault(t, what+": local read", table.ReadLocal(pd, r.LKey(), at, data), want)
		wantFault(t, what+": local transform", table.TransformLocal(pd, r.LKey(), at, data, inverse{}), want)
		wantFault(t, what+": remote transform", table.TransformRemote(pd, 1, r.RKey(), at, data, inverse{}), want)
		_, got := table.FetchAdd(pd, 1, r.RKey(), at, 1)
		wantFault(t, what+": fetch and add", got, want)
		_, got = table.CompareSwap(pd, 1, r.RKey(), at, 1, 2)
		wantFault(t, what+": compare and swap", got, want)
	}
	try("whole", gone, mem.FaultNone)
	if err := f.Truncate(int64(page)); err != nil {
		t.Fatal(err)
	}
	try("beyond the end", gone, mem.FaultBackend)
	try("before the end", r.VA(), mem.FaultNone)
	wantFault(t, "across the end", table.WriteRemote(pd, 1, r.RKey(), gone-32, data), mem.FaultBackend)
	if err := r.Deregister(); err != nil {
		t.Error(err)
	}
}

// Only what the memory does is caught.
func TestOtherPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a panic that is no fault of memory was swallowed")
		}
	}()
	_, _ = guardedFetchAdd(make([]byte, 4), 1)
}
