// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// enterNamespace gives the calling goroutine's thread a mount namespace of its own, so that a program that the thread
// executes is in it. Without the capability for that, it starts a child process that executes the command; the child has
// the capability in a user namespace.
func (r *runner) enterNamespace(command []string) (*child, error) {
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNS)
	// Root without the capability gets no user namespace: the program would have all capabilities there, and none outside.
	if errors.Is(err, unix.EPERM) && !r.inside && os.Geteuid() != 0 {
		return r.startInside(command) // a process of several threads, such as this one, cannot enter a user namespace
	}
	if err == nil {
		// What is mounted on the host later appears here, and what is mounted here does not appear on the host.
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
	}
	if err != nil {
		return nil, fmt.Errorf("a mount namespace: %w", err)
	}
	return nil, nil
}

// child is a process that executes the command in place of this one.
type child struct {
	process *os.Process
	signals chan os.Signal // signals that go to the child
}

// startInside executes run again as a child process in a user namespace.
func (r *runner) startInside(command []string) (*child, error) {
	args := []string{os.Args[0], "--pin-root", r.app.PinRoot, "--run-dir", r.app.RunDir}
	if r.app.ConfigPath != "" {
		args = append(args, "--config", r.app.ConfigPath)
	}
	args = append(args, "run", "--inside", "--library", r.library)
	if r.dev != "" {
		args = append(args, "--dev", r.dev)
	}
	args = append(append(args, "--"), command...)
	uid, gid := os.Geteuid(), os.Getegid()
	signals := catchSignals()
	process, err := os.StartProcess("/proc/self/exe", args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN}, // of the mount namespace
			Pdeathsig:   unix.SIGKILL,
		},
	})
	if err != nil {
		signal.Stop(signals)
		return nil, fmt.Errorf("a user namespace: %w", err)
	}
	return &child{process: process, signals: signals}, nil
}

// follow forwards signals to the child, and ends this process as the child ends. It returns only if it cannot wait for
// the child.
func (c *child) follow() error {
	go forward(c.signals, c.process)
	state, err := c.process.Wait()
	if err != nil {
		return fmt.Errorf("wait for the program, process %d: %w", c.process.Pid, err)
	}
	endAs(state.Sys().(syscall.WaitStatus))
	return nil
}

// forwarded are the signals that go to the child.
var forwarded = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGCONT,
}

// catchSignals returns a channel of the signals that are forwarded. Those that are ignored stay so, for the child too.
func catchSignals() chan os.Signal {
	signals := make(chan os.Signal, 16)
	for _, s := range forwarded {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals
}

// forward sends signals to a child. The terminal sends the signals of its keys to both.
func forward(signals <-chan os.Signal, child *os.Process) {
	for s := range signals {
		if (s == unix.SIGINT || s == unix.SIGQUIT) && inForeground() {
			continue
		}
		_ = child.Signal(s)
	}
}

// inForeground reports whether the keys of the terminal send signals to this process.
func inForeground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// endAs ends this process as another one has ended: by the same signal, so that a shell ends its script too after
// Ctrl-C, or with the same exit code. For signals of errors, of which the Go runtime would print a stack trace, the exit
// code is 128 and the number of the signal, as in a shell.
func endAs(status syscall.WaitStatus) {
	if !status.Signaled() {
		os.Exit(status.ExitStatus())
	}
	s := status.Signal()
	if slices.Contains([]syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGKILL}, s) && !signal.Ignored(s) {
		signal.Reset(s)
		_ = unix.Kill(unix.Getpid(), s)
		select {} // another thread may get the signal
	}
	os.Exit(128 + int(s))
}

// dropCapabilities takes the capabilities of startInside from this thread, and so from the program that it executes.
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
