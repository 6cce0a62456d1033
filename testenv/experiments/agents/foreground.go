// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// foreground is the process of `attach --foreground`, which the unit runs.
type foreground struct {
	cmd    *topo.Cmd
	said   bytes.Buffer
	exited chan error // result; sent once the process has ended
}

// start starts the process and waits until the interface is attached.
func (f *foreground) start(l *Lab) error {
	f.cmd = l.A.Command(l.bin, append(append(l.attachArgs(), "--foreground"), l.options()...)...)
	f.said.Reset()
	f.cmd.Stdout, f.cmd.Stderr = &f.said, &f.said
	if err := f.cmd.Start(); err != nil {
		return err
	}
	f.exited = make(chan error, 1)
	go func(cmd *topo.Cmd, exited chan error) { exited <- cmd.Wait() }(f.cmd, f.exited)
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := l.content()
		if err == nil {
			return nil
		}
		if ended, result := f.ended(); ended || time.Now().After(deadline) {
			return fmt.Errorf("attach --foreground: ended %t (%v): %w", ended, result, err)
		}
	}
}

// ended reports whether the process has ended, and how.
func (f *foreground) ended() (bool, error) {
	select {
	case err := <-f.exited:
		f.exited <- err
		return true, err
	default:
		return false, nil
	}
}

// stop ends the process, which detaches the interface.
func (f *foreground) stop() {
	if f.cmd == nil || f.cmd.Process == nil {
		return
	}
	_ = unix.Kill(f.cmd.Process.Pid, unix.SIGTERM)
	select {
	case <-f.exited:
	case <-time.After(patience):
		_ = unix.Kill(f.cmd.Process.Pid, unix.SIGKILL)
	}
}

// upgradedByHand upgrades the interface by the command, whose agent the unit runs.
func upgradedByHand(l *Lab) (undo func() error, err error) {
	if out, err := l.Do("$X attach --upgrade $IF"); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	// A process that is about to end has ended after this time on most machines; on a slow one
	// the end of the situation finds the agent missing.
	time.Sleep(time.Second)
	if ended, result := l.foreground.ended(); ended {
		return nil, fmt.Errorf("the process of the unit has ended (%v)", result)
	}
	if pid := l.state().AgentPID; pid != l.foreground.cmd.Process.Pid {
		return nil, fmt.Errorf("the agent is process %d, not that of the unit (%d)", pid, l.foreground.cmd.Process.Pid)
	}
	return nil, nil
}

// deletedUnderUnit deletes the interface. The process must not end with success: systemd would
// not start it again.
func deletedUnderUnit(l *Lab) (undo func() error, err error) {
	undo, err = deleted(l)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		ended, result := l.foreground.ended()
		switch {
		case ended && result == nil:
			return nil, errors.New("the process of the unit ended with success")
		case ended:
			return undo, nil
		case time.Now().After(deadline):
			return nil, fmt.Errorf("the process of the unit has not ended after %v", patience)
		}
	}
}
