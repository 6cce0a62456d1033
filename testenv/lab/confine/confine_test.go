// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const childEnv = "CONFINE_TEST_CHILD"

func TestMain(m *testing.M) {
	Main()
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	os.Exit(m.Run())
}

// child prints the outcome of what a unit may refuse.
func child() {
	try := func(name string, err error) {
		if err == nil {
			err = errors.New("done")
		}
		fmt.Printf("%s: %v\n", name, err)
	}
	try("kexec", unix.KexecFileLoad(-1, -1, "", 0))
	_, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	try("priority", err)
	try("chown", os.Chown(os.Getenv(childEnv)+"/ours", 1, 1))
	try("write", os.WriteFile(os.Getenv(childEnv)+"/other", nil, 0o600))
	try("elsewhere", os.WriteFile(os.Getenv(childEnv)+"/../elsewhere", nil, 0o600))
	_, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	try("packet", err)
	_, err = unix.Mmap(-1, 0, 4096, unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	try("code", err)
	try("mounts", unix.Unshare(unix.CLONE_NEWNS))
	try("program", exec.Command("/bin/true").Run())
	_, err = os.Stat("/dev/kmsg")
	try("kmsg", err)
}

func TestRestrictions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "writable")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(dir, "test.service")
	if err := os.WriteFile(filepath.Join(dir, "ours"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(text string) string {
		t.Helper()
		if err := os.WriteFile(unit, []byte("[Unit]\nDescription=x\n[Service]\nSystemCallErrorNumber=EPERM\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), childEnv+"="+dir, Prepare(t, unit, dir))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	free := run("")
	for _, want := range []string{"priority: done", "chown: done", "write: done", "packet: done", "code: done", "mounts: done"} {
		if !strings.Contains(free, want+"\n") {
			t.Errorf("without restrictions there is no line %q in:\n%s", want, free)
		}
	}
	tight := run(`CapabilityBoundingSet=CAP_SYS_ADMIN
CapabilityBoundingSet=CAP_KILL
SystemCallFilter=@system-service
SystemCallFilter=~getpriority
RestrictNamespaces=net
RestrictAddressFamilies=AF_INET AF_UNIX
MemoryDenyWriteExecute=yes
ProtectSystem=strict
PrivateDevices=yes
`)
	for _, want := range []string{
		"kexec: operation not permitted", "priority: operation not permitted", "chown: chown " + dir + "/ours: operation not permitted",
		"write: done", "elsewhere: open " + dir + "/../elsewhere: read-only file system", "packet: address family not supported by protocol",
		"code: operation not permitted", "mounts: operation not permitted", "program: done", "kmsg: stat /dev/kmsg: no such file or directory",
	} {
		if !strings.Contains(tight, want+"\n") {
			t.Errorf("with restrictions there is no line %q in:\n%s", want, tight)
		}
	}
}
