// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// variable names the file with the restrictions of a program.
const variable = "SOFTROCE_CONFINE"

// MayRaiseLimits reports whether this process may raise limits (CAP_SYS_RESOURCE), as systemd does. In a container that
// may not, CAP_IPC_LOCK has the same effect as LimitMEMLOCK=infinity.
func MayRaiseLimits() bool {
	var data [2]unix.CapUserData
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return unix.Capget(&hdr, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// restrictions are the settings of a unit on this machine.
type restrictions struct {
	Bounding uint64 // bit n: capability n
	Filter   []bpf.RawInstruction
	Files    view
	Locked   bool // LimitMEMLOCK=infinity
}

// Prepare returns the variable for the environment of a program that is to run under a unit. writable are the
// directories that the program may write to, in the place of its RuntimeDirectory.
func Prepare(t testing.TB, unit string, writable ...string) string {
	t.Helper()
	require.Root(t)
	require.Command(t, "systemd-analyze", "cc")
	u, err := Read(unit)
	if err != nil {
		t.Fatal(err)
	}
	r := restrictions{Files: u.view(writable), Locked: u.Is("LimitMEMLOCK", "infinity")}
	if r.Bounding, err = u.bounding(); err != nil {
		t.Fatalf("%s: %v", unit, err)
	}
	if r.Filter, err = u.filter(); err != nil {
		t.Fatalf("%s: %v", unit, err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "restrictions.json")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return variable + "=" + path
}

// Main is the first call of TestMain in a program that runs under a unit. It returns at once without the variable of
// Prepare, and for another user than root, who is not the unit's. Otherwise it executes the program again, with the
// restrictions and without the variable.
func Main() {
	path := os.Getenv(variable)
	if path == "" || os.Geteuid() != 0 {
		return
	}
	err := restrict(path)
	fmt.Fprintln(os.Stderr, "confine:", err)
	os.Exit(126)
}

func restrict(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var r restrictions
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, variable+"=") })
	// What follows concerns this thread, which is the only one after exec.
	runtime.LockOSThread()
	switch {
	case r.Locked && MayRaiseLimits():
		all := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &all); err != nil {
			return fmt.Errorf("limit of locked memory: %w", err)
		}
	case r.Locked:
		r.Bounding |= 1 << unix.CAP_IPC_LOCK
	}
	if err := r.Files.mount(); err != nil {
		return err
	}
	for n := range capabilities {
		if r.Bounding&(1<<n) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0); err != nil {
			return fmt.Errorf("drop %s: %w", capabilities[n], err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	insns := make([]unix.SockFilter, len(r.Filter))
	for i, x := range r.Filter {
		insns[i] = unix.SockFilter{Code: x.Op, Jt: x.Jt, Jf: x.Jf, K: x.K}
	}
	program := unix.SockFprog{Len: uint16(len(insns)), Filter: &insns[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	return unix.Exec("/proc/self/exe", os.Args, env)
}
