// SPDX-License-Identifier: Apache-2.0

package procmem

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Progress is how many accesses to a process have begun and have ended.
type Progress struct{ Begun, Ended uint64 }

// Progress returns the numbers now.
func (p *Process) Progress() Progress {
	ended := p.ends.Load() // first: an access ends after it has begun
	return Progress{Begun: p.starts.Load(), Ended: ended}
}

// Stalled reports whether an access was in progress at an earlier time and none has ended
// since.
func (now Progress) Stalled(earlier Progress) bool {
	return earlier.Begun != earlier.Ended && now.Ended == earlier.Ended
}

// Guard decides whether accesses to a process take so long that others are hurt: an access
// waits in the thread that serves all processes. A process can cause that with a file system
// of its own (FUSE) behind a mapping, or by holding its mmap_lock, as fork does while it copies
// the page tables.
//
// A server calls Sample every [GuardInterval] and, when it returns true, Revoke, ends the
// process (SIGKILL) and, if the access still does not end, calls AbortFUSE.
type Guard struct {
	last  Progress
	level int
}

// GuardInterval is the time between samples in milliseconds. A thread that waits for a processor
// for less is no stall.
const GuardInterval = 50

// A sample in which nothing ended adds guardStep, another one takes 1. Beyond guardLimit the
// process is to be revoked: after half a second in a row, or with more than a tenth of the samples.
const (
	guardStep  = 9
	guardLimit = 80
)

// Sample takes the next sample and reports whether the process is to be revoked.
func (g *Guard) Sample(now Progress) bool {
	if now.Stalled(g.last) {
		g.level += guardStep
	} else {
		g.level = max(g.level-1, 0)
	}
	g.last = now
	return g.level > guardLimit
}

// Revoke has all accesses that begin from now on fail with ErrRevoked.
func (p *Process) Revoke() { p.refused.CompareAndSwap(nil, &ErrRevoked) }

// FUSEControl is where systemd mounts the control file system of FUSE.
const FUSEControl = "/sys/fs/fuse/connections"

// fuseControlMagic is FUSE_CTL_SUPER_MAGIC of fs/fuse/control.c.
const fuseControlMagic = 0x65735543

// AbortFUSE ends all FUSE file systems that a user has mounted, so that accesses that wait for
// one end with an error. control is FUSEControl, or where fusectl is mounted. It returns how many
// it has ended. File systems of root stay.
func AbortFUSE(control string, uid uint32) (n int, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(control, &fs); err != nil || fs.Type != fuseControlMagic {
		return 0, fmt.Errorf("procmem: %s is not the control file system of FUSE; mount -t fusectl fusectl %s", control, control)
	}
	all, err := os.ReadDir(control)
	if uid == 0 {
		return 0, err
	}
	for _, d := range all {
		info, e := d.Info()
		if _, number := strconv.Atoi(d.Name()); e != nil || number != nil { // it has just ended
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != uid {
			continue
		}
		if e := os.WriteFile(filepath.Join(control, d.Name(), "abort"), []byte("1"), 0); e != nil {
			err = errors.Join(err, e)
			continue
		}
		n++
	}
	return n, err
}
