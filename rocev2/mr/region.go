// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"fmt"
	"math"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Spec says what memory is registered, where it is known and what may be done
// with it.
type Spec struct {
	PD     uint32
	Access verbs.Access

	// Host is memory of this process, the fast way: one copy per access. It must
	// not move, so it is not taken from a goroutine's stack; slices are never there
	// once registered.
	Host []byte

	// Pages is memory behind a Backend. Exactly one of Host and Pages is given.
	Pages *Pages

	// VA is the address of the first byte as work requests and peers name it, in
	// this process or in another whose memory this is. 0 takes the address of
	// Host, and 0 itself with Pages. With verbs.AccessZeroBased it must be 0, and is.
	VA uint64

	// Invalidatable allows local invalidation, and that by a peer's SEND with
	// invalidate; regions that an application registers by ibv_reg_mr do not: as in
	// rxe only those for fast registration do.
	Invalidatable bool

	// Arrived is called after each WRITE of a peer that has arrived as a whole, in the
	// region itself or in a window bound to it. offset is where in the region its first byte
	// is. The call is made in the engine's thread, so it must neither block nor change the region.
	// No call is in progress any more when Deregister or Reregister returns. nil: none.
	Arrived func(a mem.Arrival, offset uint64)

	// Key is the key of the region in a table whose Config has ChosenKeys. Otherwise it is 0.
	Key uint32
}

const (
	remoteRights = verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	allRights    = remoteRights | verbs.AccessLocalWrite | verbs.AccessBindWindows | verbs.AccessZeroBased
)

// entry checks the spec and makes an entry of it, without a key.
func (s Spec) entry() (*entry, error) {
	if s.Access&^allRights != 0 {
		return nil, fmt.Errorf("%w: unknown bits %#x", verbs.ErrAccess, s.Access&^allRights)
	}
	if s.Access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && s.Access&verbs.AccessLocalWrite == 0 {
		// IBTA 10.6.3, 11.2.8
		return nil, fmt.Errorf("%w: remote write and remote atomic need local write as well", verbs.ErrAccess)
	}
	e := &entry{pd: s.PD, access: s.Access, va: s.VA, arrived: s.Arrived}
	switch {
	case (s.Host == nil) == (s.Pages == nil):
		return nil, fmt.Errorf("%w: give either host memory or pages", verbs.ErrRange)
	case s.Pages != nil:
		m, err := newMTT(*s.Pages)
		if err != nil {
			return nil, err
		}
		e.pages, e.length = m, s.Pages.Length
	default:
		e.host, e.length = s.Host[:len(s.Host):len(s.Host)], uint64(len(s.Host))
		if e.va == 0 && s.Access&verbs.AccessZeroBased == 0 {
			e.va = addressOf(s.Host)
		}
	}
	switch {
	case e.length == 0:
		return nil, fmt.Errorf("%w: a region of 0 bytes", verbs.ErrRange)
	case s.Access&verbs.AccessZeroBased != 0 && s.VA != 0:
		return nil, fmt.Errorf("%w: a zero-based region has no address; got %#x", verbs.ErrRange, s.VA)
	case e.length-1 > math.MaxUint64-e.va:
		return nil, fmt.Errorf("%w: %d bytes at %#x go beyond the last address", verbs.ErrRange, e.length, e.va)
	case s.Access&verbs.AccessRemoteAtomic != 0 && !e.aligned():
		return nil, fmt.Errorf("%w: for atomics, address %#x and the memory behind it must be equal modulo 8", verbs.ErrRange, e.va)
	}
	return e, nil
}

// Region is a registered memory region.
type Region struct {
	table *Table
	slot  uint32

	changing sync.Mutex // held by Deregister and Reregister, which wait

	// Guarded by the table's lock.
	entry         *entry
	windows       int // bound to it
	invalidatable bool
	gone          bool
}

// Register makes a region with a fresh key (IBTA 11.2.8, Register Memory
// Region). The error wraps verbs.ErrPD, ErrNoKey, ErrAccess or ErrRange.
func (t *Table) Register(s Spec) (*Region, error) {
	e, err := s.entry()
	if err != nil {
		return nil, fmt.Errorf("mr: register: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.domains.acquire(s.PD); err != nil {
		return nil, fmt.Errorf("mr: register: %w", err)
	}
	slot, key, err := t.takeKey(s.Key)
	if err != nil {
		t.domains.release(s.PD)
		return nil, fmt.Errorf("mr: register: %w", err)
	}
	r := &Region{table: t, slot: slot, entry: e, invalidatable: s.Invalidatable}
	e.region, e.key = r, key
	t.slots[slot].Store(e)
	return r, nil
}

// Deregister ends the region (IBTA 11.2.8, Deregister Memory Region). When it returns nil,
// no access to the memory is in progress and none will come. With windows bound it fails
// with verbs.ErrBusy and changes nothing.
func (r *Region) Deregister() error {
	r.changing.Lock()
	defer r.changing.Unlock()
	t := r.table
	t.mu.Lock()
	if err := r.removable(); err != nil {
		t.mu.Unlock()
		return fmt.Errorf("mr: deregister: %w", err)
	}
	r.gone = true
	e := r.entry
	t.slots[r.slot].Store(nil)
	e.close(mem.FaultKey)
	t.giveKey(r.slot)
	t.domains.release(e.pd)
	t.mu.Unlock()
	e.drain()
	return nil
}

// Reregister gives the region new rights, memory, address or domain, and always a new
// key; an invalidated region is valid again (IBTA 11.2.8, Reregister Memory
// Region). When it returns nil, no access with the old key is in progress. On an error
// the region is as it was.
func (r *Region) Reregister(s Spec) error {
	e, err := s.entry()
	if err != nil {
		return fmt.Errorf("mr: reregister: %w", err)
	}
	t := r.table
	if t.chosen {
		return fmt.Errorf("mr: reregister: %w: this table has chosen keys: deregister and register", verbs.ErrNoKey)
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	t.mu.Lock()
	err = r.removable()
	if err == nil {
		err = t.domains.acquire(s.PD)
	}
	if err != nil {
		t.mu.Unlock()
		return fmt.Errorf("mr: reregister: %w", err)
	}
	old := r.entry
	e.region, e.key = r, t.keys.next(r.slot)
	r.entry, r.invalidatable = e, s.Invalidatable
	t.slots[r.slot].Store(e)
	old.close(mem.FaultKey)
	t.domains.release(old.pd)
	t.mu.Unlock()
	old.drain()
	return nil
}

func (r *Region) removable() error {
	if r.gone {
		return fmt.Errorf("the region %w", verbs.ErrDestroyed)
	}
	if r.windows > 0 {
		return fmt.Errorf("the region is %w: %d windows are bound to it; invalidate or free them first", verbs.ErrBusy, r.windows)
	}
	return nil
}

func (r *Region) now() *entry {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	return r.entry
}

// LKey is the key for work requests of this side.
func (r *Region) LKey() uint32 { return r.now().key }

// RKey is the key for peers; 0 if the region has no remote right. It is the
// same number as LKey.
func (r *Region) RKey() uint32 {
	if e := r.now(); e.access&remoteRights != 0 {
		return e.key
	}
	return 0
}

// VA is the address of the first byte.
func (r *Region) VA() uint64 { return r.now().va }

// Len is the number of bytes.
func (r *Region) Len() uint64 { return r.now().length }

// PD is the protection domain.
func (r *Region) PD() uint32 { return r.now().pd }

// Access is what the region allows.
func (r *Region) Access() verbs.Access { return r.now().access }
