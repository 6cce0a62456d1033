// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// enterNamespace gives the calling goroutine's thread a mount namespace of its own, so that a program that the thread
// executes is in it. Without the capability for that, this process executes run once more, in a user namespace where it has
// the capability.
func (r *runner) enterNamespace(command []string) error {
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNS)
	// Root without the capability gets no user namespace: the program would have all capabilities there, and none outside.
	if errors.Is(err, unix.EPERM) && !r.inside && os.Geteuid() != 0 {
		return r.execInside(command)
	}
	if err == nil {
		// What is mounted on the host later appears here, and what is mounted here does not appear on the host.
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
	}
	if err != nil {
		return fmt.Errorf("a mount namespace: %w", err)
	}
	return nil
}

// execInside executes run once more, in a user namespace. It returns only if that fails. A process of several threads, such
// as this one, cannot enter a user namespace; unshare of util-linux does, and keeps the process and so what a shell and a
// terminal know of it.
func (r *runner) execInside(command []string) error {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return fmt.Errorf("a user namespace needs unshare of util-linux: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"unshare", "--user", "--map-user", strconv.Itoa(os.Geteuid()), "--map-group", strconv.Itoa(os.Getegid()), "--keep-caps", "--"}
	// If it fails, the program can still be executed here.
	if out, err := exec.Command(unshare, append(args[1:], "true")...).CombinedOutput(); err != nil {
		reason, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
		return fmt.Errorf("a user namespace: %s", cmp.Or(string(reason), err.Error()))
	}
	args = append(args, self, "--pin-root", r.app.PinRoot, "--run-dir", r.app.RunDir)
	if r.app.ConfigPath != "" {
		args = append(args, "--config", r.app.ConfigPath)
	}
	args = append(args, "run", "--inside", "--library", r.library)
	if r.dev != "" {
		args = append(args, "--dev", r.dev)
	}
	args = append(append(args, "--"), command...)
	return fmt.Errorf("%s: %w", unshare, unix.Exec(unshare, args, os.Environ()))
}

// dropCapabilities takes the capabilities of execInside from this thread, and so from the program that it executes.
func dropCapabilities() error {
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err == nil {
		var none [2]unix.CapUserData // version 3 has two of 32 bits each
		err = unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
	}
	if err != nil {
		return fmt.Errorf("drop the capabilities: %w", err)
	}
	return nil
}
