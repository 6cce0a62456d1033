// SPDX-License-Identifier: Apache-2.0

package vmm_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/mempool/vmm"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

func init() {
	children["application"] = func() {
		m, err := vmm.NewMap(vmm.MapConfig{Config: vmm.Config{Size: 1 << 20}, Store: os.Getenv("STORE")})
		if err != nil {
			fmt.Println(err)
			return
		}
		m.Bytes()[0] = 1
		fmt.Println(m.HandlerPID())
		select {}
	}
	children["new map"] = func() {
		_, err := vmm.NewMap(vmm.MapConfig{Config: vmm.Config{Size: 1 << 20}})
		fmt.Println(errors.Is(err, vmm.ErrUnsupported), err)
	}
}

// A process without the right to use userfaultfd is refused with what to do.
func TestMapWithoutRight(t *testing.T) {
	require.Root(t)
	if b, err := os.ReadFile("/proc/sys/vm/unprivileged_userfaultfd"); err != nil || strings.TrimSpace(string(b)) != "0" {
		require.Skip(t, "needs sysctl vm.unprivileged_userfaultfd=0")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"=new map")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "true ") || !strings.Contains(string(out), "vm.unprivileged_userfaultfd=1") {
		t.Errorf("%v: %s", err, out)
	}
}

// What a handler refuses is an error of NewMap, and so is a program that is no handler.
func TestMapHandlerRefuses(t *testing.T) {
	if err := vmm.Supported(); err != nil {
		require.Skip(t, err.Error())
	}
	for _, c := range []struct {
		store   string
		command []string
		want    string
	}{
		{store: "nonsense", want: `store: "nonsense" is not a setting`},
		{command: []string{"/nonexistent"}, want: "/nonexistent"},
		{command: []string{"true"}, want: "vmm.Main"},
	} {
		m, err := vmm.NewMap(vmm.MapConfig{Config: vmm.Config{Size: 1 << 20}, Store: c.store, Command: c.command})
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A handler whose store is not open in time is an error that tells the time; whether it calls Main is not the question.
func TestMapHandlerIsLate(t *testing.T) {
	if err := vmm.Supported(); err != nil {
		require.Skip(t, err.Error())
	}
	m, err := vmm.NewMap(vmm.MapConfig{Config: vmm.Config{Size: 1 << 20}, Command: []string{"sleep", "3600"}, StartTimeout: time.Millisecond})
	if err == nil {
		m.Close()
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "no answer after 1ms") || strings.Contains(err.Error(), "vmm.Main") {
		t.Errorf("%v", err)
	}
}

// A program that does not call Main cannot start itself without end.
func TestMapInHandler(t *testing.T) {
	t.Setenv("SOFTROCE_VMM_PROCESS", "handler")
	if _, err := vmm.NewMap(vmm.MapConfig{Config: vmm.Config{Size: 1 << 20}}); err == nil || !strings.Contains(err.Error(), "vmm.Main") {
		t.Errorf("NewMap in a handler: %v", err)
	}
}

// The store is closed when the map is.
func TestMapClosesStore(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed")
	m := newMap(t, vmm.Config{Size: 1 << 20, Deadline: time.Hour}, "closed="+closed)
	m.Bytes()[0] = 1
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(closed); err != nil {
		t.Error(err)
	}
}

// Handler and guardian end when the application is killed, and the handler closes its store.
func TestMapApplicationKilled(t *testing.T) {
	if err := vmm.Supported(); err != nil {
		require.Skip(t, err.Error())
	}
	cmd := exec.Command("/proc/self/exe")
	closed := filepath.Join(t.TempDir(), "closed")
	cmd.Env = append(os.Environ(), childEnv+"=application", "STORE=closed="+closed)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var handler int
	if _, err := fmt.Fscan(out, &handler); err != nil {
		t.Fatal(err)
	}
	guardian := guardianPID(t, handler)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, pid := range []int{handler, guardian} {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		defer unix.Close(fd)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 60_000)
		for err == unix.EINTR {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 60_000)
		}
		if n != 1 {
			t.Errorf("process %d still runs a minute later (%v)", pid, err)
		}
	}
	if _, err := os.Stat(closed); err != nil {
		t.Error(err)
	}
}

// A store that was opened is closed, also if the map is not made: the handler cannot start its guardian.
func TestMapNotMadeClosesStore(t *testing.T) {
	if err := vmm.Supported(); err != nil {
		require.Skip(t, err.Error())
	}
	closed := filepath.Join(t.TempDir(), "closed")
	m, err := vmm.NewMap(vmm.MapConfig{Config: vmm.Config{Size: 1 << 20}, Store: "closed=" + closed + " files=4"})
	if err == nil {
		m.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "too many open files") {
		t.Errorf("NewMap: %v", err)
	}
	waitForFile(t, closed)
}

// An application that ends while the store is opened leaves no store open.
func TestMapApplicationKilledAtStart(t *testing.T) {
	if err := vmm.Supported(); err != nil {
		require.Skip(t, err.Error())
	}
	dir := t.TempDir()
	closed, wait := filepath.Join(dir, "closed"), filepath.Join(dir, "wait")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"=application", "STORE=closed="+closed+" wait="+wait)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitForFile(t, wait+".waits")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := os.WriteFile(wait, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitForFile(t, closed)
}

// waitForFile waits until a file is there.
func waitForFile(t *testing.T, path string) {
	t.Helper()
	testkit.Eventually(t, "a file", func() error {
		_, err := os.Stat(path)
		return err
	})
}
