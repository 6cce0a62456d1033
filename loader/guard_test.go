// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// unusedIndex is the index of no interface.
const unusedIndex = 1 << 30

// One agent has the guard of an interface. It is found by its process and by the directory of its
// lease, also when the file of the lease is gone.
func TestGuard(t *testing.T) {
	o := Options{RunDir: t.TempDir(), PinRoot: t.TempDir()}
	if p := agentAt(unusedIndex); p != nil {
		t.Fatalf("found %v before there is one", p)
	}
	lock, err := TakeLock(o.RunDir, "eth0")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	g, err := TakeGuard("eth0", unusedIndex, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(o.RunDir); err != nil {
		t.Fatal(err)
	}
	p := agentAt(unusedIndex)
	if p == nil || p.pid != os.Getpid() || !p.uses(o.RunDir) || p.uses(o.PinRoot) || p.otherMounts() {
		t.Errorf("found %+v", p)
	}
	if _, err := TakeGuard("eth0", unusedIndex, o); !errors.Is(err, ErrAgentRunning) {
		t.Errorf("a second agent: %v", err)
	}
	if AgentAlive(o.RunDir, "eth0") {
		t.Error("the lease is there without its file")
	}
	if err := lock.Restore(); err != nil || !AgentAlive(o.RunDir, "eth0") {
		t.Errorf("the lease is not restored: %v", err)
	}
	g.Release()
	if p := agentAt(unusedIndex); p != nil {
		t.Errorf("found %v after its end", p)
	}
	if g, err = TakeGuard("eth0", unusedIndex, o); err != nil {
		t.Error(err)
	}
	g.Release()
}

// The name of a guard that another user has taken keeps no agent from starting.
func TestGuardOfAnotherUser(t *testing.T) {
	require.Root(t)
	require.Command(t, "/usr/bin/python3")
	const bind = `import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind("\0" + sys.argv[1])
print("bound", flush=True)
sys.stdin.read()`
	c := exec.Command("/usr/bin/python3", "-c", bind, guardName(unusedIndex + 1)[1:])
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = c.Wait()
	}()
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	o := Options{RunDir: t.TempDir(), PinRoot: t.TempDir()}
	if guardInode(unusedIndex+1) == "" {
		t.Fatal("the other user has not taken the name")
	}
	g, err := TakeGuard("eth0", unusedIndex+1, o)
	if g != nil || err != nil {
		t.Errorf("%v, %v", g, err)
	}
}
