// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// asUser calls f in a thread that has another user if this one is root. The thread ends with it.
func asUser(t *testing.T, uid uintptr, f func()) {
	t.Helper()
	done := make(chan unix.Errno)
	go func() {
		runtime.LockOSThread() // and never unlocked
		if os.Getuid() == 0 {
			// The system call and not the function, which would change all threads.
			if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uid, ^uintptr(0)); e != 0 {
				done <- e
				return
			}
		}
		defer func() { done <- 0 }() // also if f ends the goroutine
		f()
	}()
	if e := <-done; e != 0 {
		t.Fatal(e)
	}
}

// A thread whose user is not root cannot send with the Q_Key of queue pair 1, as communication managers do, although
// its process has all capabilities: it is the thread that has connected.
func TestControlledQKey(t *testing.T) {
	_, dir := serve(t, device.Config{Mode: 0o666})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	modify := func(d *client.Device, key uint32) error {
		e := newEnd(t, d, 4096, verbs.QPInit{Type: verbs.UD})
		a := verbs.DefaultAttr()
		a.State, a.QKey = verbs.StateInit, key
		return e.qp.Modify(a, verbs.RequiredMask(verbs.UD, verbs.StateInit))
	}
	asUser(t, 54321, func() {
		d, err := client.Open(t.Context(), "lo", client.Config{RunDir: dir, ArenaBytes: 1 << 20})
		if err != nil {
			t.Error(err)
			return
		}
		defer d.Close()
		if err := modify(d, 0x80010000); err == nil || !strings.Contains(err.Error(), "CAP_NET_RAW") {
			t.Errorf("the Q_Key of queue pair 1: %v", err)
		}
		if err := modify(d, 0x7fffffff); err != nil {
			t.Error(err)
		}
	})
	if os.Getuid() == 0 {
		if err := modify(open(t, dir), 0x80010000); err != nil {
			t.Error(err)
		}
	}
}
