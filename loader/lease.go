// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lease is a right that one process has at a time: a lock on a file in the run directory,
// which the kernel releases when the process ends. The file contains the process ID and is
// removed with the lease.
type lease struct {
	f    *os.File
	path string
}

// The leases of an interface, by the ending of their files.
const (
	leaseControl = "control" // to change the attachment: attach, upgrade, detach, clean
	leaseAgent   = "lock"    // to be the agent
	leaseEngine  = "engine"  // to be the engine
)

// errLeased: another process has the lease. Its text stands in front of the process ID.
var errLeased = errors.New("in process")

func leasePath(runDir, ifname, kind string) string {
	return filepath.Join(runDir, escapeName(ifname)+"."+kind)
}

// takeLease takes the lease of an interface or returns errLeased at once.
func takeLease(runDir, ifname, kind string) (*lease, error) {
	if err := makeRunDir(runDir); err != nil {
		return nil, err
	}
	path := leasePath(runDir, ifname, kind)
	f, err := OpenLocked(path, 0o644, func(fd uintptr) error {
		lk := unix.Flock_t{Type: unix.F_WRLCK}
		return unix.FcntlFlock(fd, unix.F_OFD_SETLK, &lk)
	})
	switch {
	case errors.Is(err, unix.EAGAIN):
		return nil, fmt.Errorf("%w %s", errLeased, leaseHolder(runDir, ifname, kind))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", ifname, err)
	}
	// A full file system is no error: the lock itself needs no space.
	_ = f.Truncate(0)
	_, _ = fmt.Fprintf(f, "%d (%s)", os.Getpid(), filepath.Base(os.Args[0]))
	return &lease{f, path}, nil
}

// cleaning is the end of the text of a lease that its owner has for a moment, to remove what a killed process has left.
const cleaning = ", cleaning"

// cleans notes that the owner has the lease for a moment.
func (l *lease) cleans() { _, _ = l.f.WriteString(cleaning) }

func (l *lease) release() { RemoveLocked(l.f, l.path) }

// restore creates the file of the lease again if somebody has removed it, and takes the lock on it.
// The error wraps errLeased if another process was faster.
func (l *lease) restore() error {
	if stillAt(l.f, l.path) {
		return nil
	}
	runDir, file := filepath.Split(l.path)
	kind := filepath.Ext(file)
	again, err := takeLease(runDir, unescapeName(strings.TrimSuffix(file, kind)), kind[1:])
	if err != nil {
		return err
	}
	l.f.Close()
	l.f = again.f
	return nil
}

// leaseHolder returns the process that has a lease, as "PID (name)"; "" if none has.
func leaseHolder(runDir, ifname, kind string) string {
	f, err := os.Open(leasePath(runDir, ifname, kind))
	if err != nil {
		return ""
	}
	defer f.Close()
	lk := unix.Flock_t{Type: unix.F_RDLCK}
	if unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lk) != nil || lk.Type == unix.F_UNLCK {
		return ""
	}
	var who [64]byte
	if n, _ := f.ReadAt(who[:], 0); n > 0 {
		return string(who[:n])
	}
	return "unknown"
}

// leasePID returns the ID of the process that has a lease; 0 if none has or it is unknown.
func leasePID(runDir, ifname, kind string) int {
	return holderPID(leaseHolder(runDir, ifname, kind))
}

// holderPID returns the process ID in what leaseHolder returns; 0 if it has none.
func holderPID(holder string) int {
	pid, _, _ := strings.Cut(holder, " ")
	n, _ := strconv.Atoi(pid)
	return n
}

// Control is the right to change the attachments of some interfaces. Attach, Upgrade, Detach
// and Clean take it for the duration of the call. A caller that combines several of them
// takes it first, and passes it in Options.
type Control struct{ leases []*lease }

// ErrBusy: another process is changing the attachment of the interface.
var ErrBusy = errors.New("another process is changing what is attached to it")

// DefaultPatience is the time for which a change waits for that of another process.
const DefaultPatience = 20 * time.Second

const leasePoll = 5 * time.Millisecond

// TakeControl takes control of the interfaces. It waits for other processes for up to
// Options.Patience per interface. The error then wraps ErrBusy and names the process.
func TakeControl(o Options, ifnames ...string) (*Control, error) {
	o = o.withDefaults()
	if err := checkPrivileges(); err != nil {
		return nil, err
	}
	// All processes take the leases in the same order, so that there is no deadlock.
	sorted := slices.Clone(ifnames)
	slices.Sort(sorted)
	c := &Control{}
	for _, name := range sorted {
		ctx, cancel := context.WithTimeout(context.Background(), o.Patience)
		l, err := waitLease(ctx, o.RunDir, name)
		cancel()
		if errors.Is(err, errLeased) {
			err = fmt.Errorf("%s: %w, %w: waited %v for it; try again when it has ended, or end it", name, ErrBusy, err, o.Patience)
		}
		if err != nil {
			c.Release()
			return nil, err
		}
		c.leases = append(c.leases, l)
	}
	return c, nil
}

// AwaitControl takes control of an interface as soon as no other process has it. If ctx ends before, it returns its error.
func AwaitControl(ctx context.Context, o Options, ifname string) (*Control, error) {
	o = o.withDefaults()
	if err := checkPrivileges(); err != nil {
		return nil, err
	}
	l, err := waitLease(ctx, o.RunDir, ifname)
	if errors.Is(err, errLeased) {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return &Control{[]*lease{l}}, nil
}

// waitLease takes the lease of control. The error is errLeased if another process has it until ctx ends.
func waitLease(ctx context.Context, runDir, ifname string) (*lease, error) {
	for ended := false; ; {
		l, err := takeLease(runDir, ifname, leaseControl)
		if !errors.Is(err, errLeased) || ended {
			return l, err
		}
		select {
		case <-ctx.Done():
			ended = true // one more look: the process may have stood still
		case <-time.After(leasePoll):
		}
	}
}

// Release releases control of the interfaces. A second call does nothing.
func (c *Control) Release() {
	for _, l := range c.leases {
		l.release()
	}
	c.leases = nil
}

// control returns the caller's control of the interface, or takes it for this call.
func (o Options) control(ifname string) (release func(), err error) {
	if o.Control != nil {
		return func() {}, nil
	}
	c, err := TakeControl(o, ifname)
	if err != nil {
		return nil, err
	}
	return c.Release, nil
}
