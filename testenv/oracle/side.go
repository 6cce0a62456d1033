// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Side is one end of the cases: a device of package verbs. A Judge is rxe in a machine; package
// sides has the engine and the model of the card. Calls on different objects may run side by side.
type Side interface {
	// Name tells the sides apart in messages.
	Name() string
	// Addr is the address that the side's GID of a family stands for.
	Addr(v6 bool) (netip.Addr, error)
	AllocPD() (verbs.PD, error)
	CreateCQ(depth int) (verbs.CQ, error)
	// NewMemory allocates and registers memory that begins at offset in a page.
	NewMemory(pd verbs.PD, size, offset int, rights verbs.Access) (verbs.DM, error)
	// AsyncEvent returns the next event of the device, or nil when wait has passed.
	AsyncEvent(ctx context.Context, wait time.Duration) (*verbs.Event, error)
}

// allRights is every right of a memory region.
const allRights = verbs.AccessLocalWrite | verbs.AccessBindWindows | peerRights

// peerRights is every right that a queue pair gives its peer.
const peerRights = verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// piece is the scatter/gather list of n bytes of a region from off on.
func piece(m verbs.MR, off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: m.VA() + uint64(off), Len: uint32(n), LKey: m.LKey()}}
}

// The functions that follow need one exchange with the machine if the object is of a Judge.

// postSend posts requests, each of which has a completion.
func postSend(q verbs.QP, wrs ...verbs.SendWR) error {
	for i := range wrs {
		wrs[i].Flags |= verbs.Signaled
	}
	if q, ok := q.(*judgeQP); ok {
		return q.postSend(wrs)
	}
	for i := range wrs {
		if err := q.PostSend(&wrs[i]); err != nil {
			return err
		}
	}
	return nil
}

// postRecv posts receives to a queue pair or a shared receive queue.
func postRecv(q interface{ PostRecv(*verbs.RecvWR) error }, wrs ...verbs.RecvWR) error {
	if q, ok := q.(interface{ postRecv([]verbs.RecvWR) error }); ok {
		return q.postRecv(wrs)
	}
	for i := range wrs {
		if err := q.PostRecv(&wrs[i]); err != nil {
			return err
		}
	}
	return nil
}

// collect waits until n completions are there or wait has passed, and returns those that came, n
// at most.
func collect(ctx context.Context, cq verbs.CQ, n int, wait time.Duration) ([]verbs.Completion, error) {
	if cq, ok := cq.(*judgeCQ); ok {
		return cq.collect(ctx, n, wait)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	got := make([]verbs.Completion, n)
	for have := 0; ; {
		have += cq.Poll(got[have:])
		if have == n {
			return got, nil
		}
		if err := cq.Wait(ctx, false); err != nil {
			if ctx.Err() != nil { // wait has passed
				return got[:have], nil
			}
			return got[:have], err
		}
	}
}

// fill writes bytes skip, skip+1, ... of a seed's pattern to n bytes of m from off on.
func fill(m verbs.DM, off, n int, seed, skip uint64) error {
	if m, ok := m.(*judgeMR); ok {
		return m.fill(off, n, seed, skip)
	}
	b := make([]byte, n)
	fillPattern(b, seed, skip)
	_, err := m.WriteAt(b, int64(off))
	return err
}

// check compares memory with what fill writes.
func check(m verbs.DM, off, n int, seed, skip uint64) (mismatch, error) {
	if m, ok := m.(*judgeMR); ok {
		return m.check(off, n, seed, skip)
	}
	b := make([]byte, n)
	_, err := m.ReadAt(b, int64(off))
	return checkPattern(b, seed, skip), err
}
