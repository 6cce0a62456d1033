// SPDX-License-Identifier: Apache-2.0

package clientmem

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
// process (SIGKILL) and, if the access still does not end, ends file systems (FileSystems).
type Guard struct {
	last  Progress
	level int
}

// GuardInterval is the time between samples in milliseconds.
const GuardInterval = 50

// A sample in which nothing ended adds guardStep, another one takes 1. Beyond guardLimit the
// process is to be revoked: after half a second in a row, or with more than a tenth of the samples.
const (
	guardStep  = 9
	guardLimit = 80
)

// Sample takes the next sample and reports whether the process is to be revoked. It calls delays if nothing ended: whether that is
// because of the process (Process.Delays).
func (g *Guard) Sample(now Progress, delays func() bool) bool {
	if now.Stalled(g.last) && delays() {
		g.level += guardStep
	} else {
		g.level = max(g.level-1, 0)
	}
	g.last = now
	return g.level > guardLimit
}

// Revoke has all accesses that begin from now on fail with ErrRevoked.
func (p *Process) Revoke() { p.refused.CompareAndSwap(nil, &ErrRevoked) }
