// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"log/slog"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// A process that the server may not end is named in the log, once, with what the server needs. A process that has
// ended is no error.
func TestKillRefused(t *testing.T) {
	require.Root(t)
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var log bytes.Buffer
	c := &session{s: &Server{log: slog.New(slog.NewTextHandler(&log, nil))}, process: &process{pid: 4711, pidfd: fd}}
	m := &processMemory{}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread has another user
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, 54321, 54321, 54321); e != 0 {
			done <- e
			return
		}
		done <- c.process.kill()
	}()
	err = <-done
	m.note(c, err)
	m.note(c, err)
	if got := log.String(); strings.Count(got, "pid=4711") != 1 || !strings.Contains(got, "CAP_KILL") {
		t.Errorf("%v; the log: %s", err, got)
	}
	if err := c.process.kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if err := c.process.kill(); err != nil {
		t.Errorf("a process that has ended: %v", err)
	}
}
