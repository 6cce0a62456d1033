// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"
)

// Cmd is an exec.Cmd whose process runs inside a host's namespace. Only the
// network namespace differs from the caller's: bpffs, files and mounts are the
// same (/sys/class/net is the caller's too). The process leads its own process
// group and is killed when the topology closes or this process dies.
type Cmd struct {
	*exec.Cmd
	host *Host
	wait sync.Once
	err  error
}

// Command prepares a program to run inside the namespace.
func (h *Host) Command(name string, args ...string) *Cmd {
	return h.CommandContext(context.Background(), name, args...)
}

// CommandContext is Command with a context that kills the process when done.
func (h *Host) CommandContext(ctx context.Context, name string, args ...string) *Cmd {
	c := &Cmd{Cmd: exec.CommandContext(ctx, name, args...), host: h}
	c.Cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	c.Cmd.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
	return c
}

// Start starts the process.
func (c *Cmd) Start() error {
	h := c.host
	if h.thread == nil {
		return fmt.Errorf("topo: %s is a tap: start the virtual machine with Switch().Command", h.name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fmt.Errorf("topo: %s is closed", h.name)
	}
	var err error
	h.thread.do(func() { err = c.Cmd.Start() })
	if err == nil {
		h.cmds[c] = struct{}{}
	}
	return err
}

// Wait waits for the process to exit. Unlike exec.Cmd's it may be called from
// several goroutines and more than once.
func (c *Cmd) Wait() error {
	c.wait.Do(func() {
		c.err = c.Cmd.Wait()
		c.host.mu.Lock()
		delete(c.host.cmds, c)
		c.host.mu.Unlock()
	})
	return c.err
}

// Run starts the process and waits for it.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the process and returns its standard output; the standard error
// becomes part of the error.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("topo: Output with Stdout or Stderr already set")
	}
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	err := c.Run()
	if err != nil && stderr.Len() > 0 {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out.Bytes(), err
}

// CombinedOutput runs the process and returns both of its outputs.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("topo: CombinedOutput with Stdout or Stderr already set")
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// kill ends the process group and reaps the process.
func (c *Cmd) kill() {
	unix.Kill(-c.Process.Pid, unix.SIGKILL)
	c.Wait()
}
