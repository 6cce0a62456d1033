// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// application is a process whose memory is used.
type application struct {
	*Process
	t     testing.TB
	cmd   *exec.Cmd
	in    io.Writer
	out   *bufio.Scanner
	ended bool
}

// startApplication starts a process and opens its memory.
func startApplication(t testing.TB) *application {
	t.Helper()
	return startApplicationWith(t, 0)
}

// startApplicationWith starts it in namespaces of its own, or as another user.
func startApplicationWith(t testing.TB, unshare uintptr, user ...uint32) *application {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	defer theirs.Close()
	defer unix.Close(pair[0])
	a := &application{t: t, cmd: exec.Command("/proc/self/exe")}
	a.cmd.Env = append(os.Environ(), childEnv+"=application")
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unshare}
	if len(user) > 0 {
		a.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user[0], Gid: user[0]}
	}
	if unshare&unix.CLONE_NEWPID != 0 {
		a.cmd.Env = append(a.cmd.Env, procEnv+"=1")
	}
	a.cmd.ExtraFiles = []*os.File{theirs}
	a.cmd.Stderr = os.Stderr
	a.in, _ = a.cmd.StdinPipe()
	out, _ := a.cmd.StdoutPipe()
	a.out = bufio.NewScanner(out)
	a.out.Buffer(nil, 1<<20)
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.kill)
	if got := a.reply(); got != "ok" {
		t.Fatal(got)
	}
	oob := make([]byte, unix.CmsgSpace(3*4))
	_, oobn, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 3 {
		t.Fatal(fds, err)
	}
	if a.Process, err = OpenProcess(fds[0], fds[1], fds[2]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func (a *application) reply() string {
	if !a.out.Scan() {
		return "error: the process has ended"
	}
	return a.out.Text()
}

// try sends a command and returns the reply; ok is false if it is an error.
func (a *application) try(format string, args ...any) (reply string, ok bool) {
	if _, err := fmt.Fprintf(a.in, format+"\n", args...); err != nil {
		return err.Error(), false
	}
	reply = a.reply()
	return reply, !strings.HasPrefix(reply, "error")
}

func (a *application) do(format string, args ...any) string {
	a.t.Helper()
	reply, ok := a.try(format, args...)
	if !ok {
		a.t.Fatalf("%s: %s", fmt.Sprintf(format, args...), reply)
	}
	return reply
}

// mapped has the process map pages of a kind.
func (a *application) mapped(kind string, pages int) uint64 {
	a.t.Helper()
	return a.address("map %s %d", kind, pages)
}

func (a *application) address(format string, args ...any) (addr uint64) {
	a.t.Helper()
	reply := a.do(format, args...)
	if _, err := fmt.Sscan(reply, &addr); err != nil {
		a.t.Fatal(reply, err)
	}
	return addr
}

// sees returns what the process itself reads.
func (a *application) sees(addr uint64, n int) []byte {
	a.t.Helper()
	b, err := hex.DecodeString(a.do("read %d %d", addr, n))
	if err != nil {
		a.t.Fatal(err)
	}
	return b
}

// kill ends the process by SIGKILL and waits for its end.
func (a *application) kill() {
	if a.ended {
		return
	}
	a.ended = true
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
}
