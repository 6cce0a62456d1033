// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultRunDir is the directory of state files, locks and logs. Like the pins, it does not
// survive a reboot.
const DefaultRunDir = "/run/softroce-xdp"

// State is the content of the state file RunDir/<interface>.json, which attach writes for
// status, detach and the agent.
type State struct {
	Interface string     `json:"interface"`
	Ifindex   int        `json:"ifindex"`
	Netns     uint64     `json:"netns"` // inode of the network namespace
	PinRoot   string     `json:"pin_root,omitempty"`
	Version   string     `json:"version"`
	Attached  time.Time  `json:"attached"`
	XDPMode   XDPMode    `json:"xdp_mode"` // native or generic
	Egress    EgressHook `json:"egress"`   // tcx or clsact
	OwnClsact bool       `json:"own_clsact,omitempty"`
	Pacer     PacerKind  `json:"pacer"`
	OwnQdisc  bool       `json:"own_qdisc"`              // detach removes the root qdisc
	QueueLen  *int       `json:"tx_queue_len,omitempty"` // length before attach
	Clock     StampClock `json:"clock"`
	RateFrom  string     `json:"rate_from"` // ethtool, flag or default
	NodeFile  string     `json:"node_file,omitempty"`
	AgentPID  int        `json:"agent_pid,omitempty"`
	// AgentStart is when the agent started, ns of CLOCK_MONOTONIC: a reload changes it and keeps
	// the process ID.
	AgentStart uint64 `json:"agent_start_ns,omitempty"`
	Foreground bool   `json:"foreground,omitempty"` // the agent's process is one of `attach --foreground`
	NIC        *NIC   `json:"nic,omitempty"`        // nil: the agent serves no engine
	// Lost says that the interface is attached no more, and why. The state is kept for status until
	// detach, clean or the next attach.
	Lost string `json:"lost,omitempty"`
}

func statePath(runDir, ifname string) string {
	return filepath.Join(runDir, escapeName(ifname)+".json")
}

// socketPath is the socket of the device that the agent serves: proto.SocketPath.
func socketPath(runDir, ifname string) string {
	return filepath.Join(runDir, escapeName(ifname)+".sock")
}

// LogPath returns the path of a background agent's log.
func LogPath(runDir, ifname string) string {
	return filepath.Join(runDir, escapeName(ifname)+".log")
}

// ReportPath returns the path of what the agent reports to status (package inspect).
func ReportPath(runDir, ifname string) string {
	return filepath.Join(runDir, escapeName(ifname)+".report")
}

// ReadState reads the state file of an interface. The error wraps os.ErrNotExist if there is
// none.
func ReadState(runDir, ifname string) (State, error) {
	var s State
	b, err := readRegular(statePath(runDir, ifname))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("%s is damaged (%w): run `softroce-xdp detach %s` and attach again", statePath(runDir, ifname), err, ifname)
	}
	if s.Interface != ifname {
		return State{}, fmt.Errorf("%s is damaged (it has the state of %q): run `softroce-xdp detach %s` and attach again", statePath(runDir, ifname), s.Interface, ifname)
	}
	return s, nil
}

// readRegular reads a file of the run directory. Others do not end.
func readRegular(path string) ([]byte, error) {
	switch i, err := os.Stat(path); {
	case err != nil:
		return nil, err
	case !i.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file: remove it", path)
	}
	return os.ReadFile(path)
}

// ReadReport reads the report of the agent of an interface, and returns its age.
func ReadReport(runDir, ifname string) ([]byte, time.Duration, error) {
	path := ReportPath(runDir, ifname)
	b, err := readRegular(path)
	if err != nil {
		return nil, 0, err
	}
	i, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	return b, time.Since(i.ModTime()), nil
}

// writeState replaces the file atomically, so that no reader finds an incomplete one.
func writeState(runDir string, s State) error {
	if err := makeRunDir(runDir); err != nil {
		return err
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := replaceFile(statePath(runDir, s.Interface), append(b, '\n')); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}

// replaceFile replaces a file at once. It has one writer.
func replaceFile(path string, b []byte) error {
	tmp := path + ".new"
	_ = os.Remove(tmp) // of a writer that was killed
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
	}
	return err
}

func removeState(runDir, ifname string) error {
	_ = os.Remove(socketPath(runDir, ifname)) // of a device server that was killed
	_ = os.Remove(ReportPath(runDir, ifname))
	err := os.Remove(statePath(runDir, ifname))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	for _, kind := range []string{leaseAgent, leaseEngine} { // of processes that were killed
		if l, err := takeLease(runDir, ifname, kind); err == nil {
			l.release()
		}
	}
	return err
}

// ErrAgentRunning: the interface has another agent.
var ErrAgentRunning = errors.New("an agent is running already")

// Lock is the lease of the agent of an interface.
type Lock struct{ l *lease }

// TakeLock takes the lease of the interface's agent. The error wraps ErrAgentRunning if another
// process has it.
func TakeLock(runDir, ifname string) (*Lock, error) {
	l, err := takeLease(runDir, ifname, leaseAgent)
	if errors.Is(err, errLeased) {
		return nil, fmt.Errorf("%s: %w, %w", ifname, ErrAgentRunning, err)
	}
	if err != nil {
		return nil, err
	}
	return &Lock{l}, nil
}

// Release releases the lease, so that another agent can start.
func (l *Lock) Release() { l.l.release() }

// Restore creates the file of the lease again if somebody has removed it.
func (l *Lock) Restore() error { return l.l.restore() }

// AgentAlive reports whether the interface has an agent.
func AgentAlive(runDir, ifname string) bool { return leaseHolder(runDir, ifname, leaseAgent) != "" }

// StopAgent ends the agent of an interface and waits until its lease, and that of its engine, are free: for timeout
// after SIGTERM, and for timeout after SIGKILL. The data plane stays. Without an agent it
// does nothing.
func StopAgent(runDir, ifname string, timeout time.Duration) error {
	holder := leaseHolder(runDir, ifname, leaseAgent)
	if holder == "" {
		return nil
	}
	pid := holderPID(holder)
	if pid == 0 && !AgentAlive(runDir, ifname) {
		return nil // it ended meanwhile
	}
	if pid == 0 {
		return fmt.Errorf("%s: an agent runs but %s does not say which process it is: stop it by hand", ifname, leasePath(runDir, ifname, leaseAgent))
	}
	// The kernel takes one lease after the other from a process that ends.
	alive := func() bool { return AgentAlive(runDir, ifname) || leasePID(runDir, ifname, leaseEngine) == pid }
	return stopProcess(ifname, pid, timeout, alive)
}

// aliveLook is the time between two looks at an agent that is to end.
const aliveLook = 5 * time.Millisecond

// stopProcess ends an agent: SIGTERM, and after timeout SIGKILL.
func stopProcess(ifname string, pid int, timeout time.Duration, alive func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) && !alive() {
		return nil // it ended meanwhile
	}
	if err != nil {
		return fmt.Errorf("%s: agent %d: %w", ifname, pid, err)
	}
	defer unix.Close(fd)
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("%s: stop agent %d: %w", ifname, pid, err)
		}
		for range timeout/aliveLook + 1 { // looks are counted: a process that stood still has not looked
			if !alive() {
				return nil
			}
			time.Sleep(aliveLook)
		}
	}
	return fmt.Errorf("%s: agent %d has not ended after SIGTERM and SIGKILL: see what the process waits for (`cat /proc/%[2]d/stack`), and try again", ifname, pid)
}
