// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Config sizes a table.
type Config struct {
	// Keys is how many regions and windows may exist at once, rounded up to a
	// power of 2 between 256 and 1048576. 0 means 65536. A slot costs 16 bytes.
	Keys int

	// ChosenKeys has the caller choose every key (Spec.Key, AllocWindowKey), as the driver
	// of a card does, and protection domains (OpenPD). Nothing keeps two keys in a row on
	// one slot apart then.
	ChosenKeys bool
}

// Table holds the memory that one NIC may touch. It implements mem.Memory. Its
// methods may be called by any goroutine.
type Table struct {
	slots  []atomic.Pointer[entry]
	shift  uint // a key's slot is key >> shift
	chosen bool // Config.ChosenKeys

	mu      sync.Mutex // guards what follows, and all writing to slots
	keys    keys
	domains domains
	bound   map[uint32]map[*Window]struct{} // windows by queue pair
}

var (
	_ mem.Memory      = (*Table)(nil)
	_ mem.Transformer = (*Table)(nil)
)

// New returns an empty table.
func New(c Config) (*Table, error) {
	slotBits := uint(defaultSlotBits)
	if c.Keys != 0 {
		if c.Keys < 0 || c.Keys > 1<<maxSlotBits {
			return nil, fmt.Errorf("mr: %d keys; use 1 to %d, or 0 for %d", c.Keys, 1<<maxSlotBits, 1<<defaultSlotBits)
		}
		slotBits = max(minSlotBits, uint(bits.Len(uint(c.Keys-1))))
	}
	return &Table{
		slots:   make([]atomic.Pointer[entry], 1<<slotBits),
		shift:   32 - slotBits,
		chosen:  c.ChosenKeys,
		keys:    newKeys(slotBits, c.ChosenKeys),
		domains: newDomains(),
		bound:   map[uint32]map[*Window]struct{}{},
	}, nil
}

// find returns what the key stands for, or nil.
func (t *Table) find(key uint32) *entry {
	e := t.slots[key>>(t.shift&31)].Load()
	if e == nil || e.key != key {
		return nil
	}
	return e
}

// local judges an access by lkey. A window's key is none (IBTA 10.6.7.2).
func (t *Table) local(pd, lkey uint32, addr, n uint64, need verbs.Access) (*entry, mem.Fault) {
	e := t.find(lkey)
	if e == nil || e.window != nil {
		return nil, mem.FaultKey
	}
	return e, e.admits(pd, addr, n, need)
}

// remote judges an access by rkey. A window of type 2B belongs to a queue pair as
// well as to a domain (IBTA 10.6.7.2).
func (t *Table) remote(pd, qpn, rkey uint32, addr, n uint64, need verbs.Access) (*entry, mem.Fault) {
	e := t.find(rkey)
	if e == nil {
		return nil, mem.FaultKey
	}
	if e.region != nil && e.window != nil && e.qpn != qpn {
		return nil, mem.FaultPD
	}
	return e, e.admits(pd, addr, n, need)
}

// An access of no bytes needs no valid key: C9-88 in IBTA 9.7.4.1.5 says so for
// RDMA READ and WRITE; for the entries of a work request's list rxe does the same.

// CheckLocal implements mem.Memory.
func (t *Table) CheckLocal(pd, lkey uint32, addr uint64, n uint32, need verbs.Access) mem.Fault {
	if n == 0 {
		return mem.FaultNone
	}
	_, f := t.local(pd, lkey, addr, uint64(n), need)
	return f
}

// ReadLocal implements mem.Memory. After FaultBackend dst is undefined.
func (t *Table) ReadLocal(pd, lkey uint32, addr uint64, dst []byte) mem.Fault {
	if len(dst) == 0 {
		return mem.FaultNone
	}
	e, f := t.local(pd, lkey, addr, uint64(len(dst)), 0)
	if f != mem.FaultNone {
		return f
	}
	return e.read(addr, dst)
}

// WriteLocal implements mem.Memory. After FaultBackend the bytes of the range
// are undefined; none outside it changed.
func (t *Table) WriteLocal(pd, lkey uint32, addr uint64, src []byte) mem.Fault {
	if len(src) == 0 {
		return mem.FaultNone
	}
	e, f := t.local(pd, lkey, addr, uint64(len(src)), verbs.AccessLocalWrite)
	if f != mem.FaultNone {
		return f
	}
	return e.write(addr, src)
}

// CheckRemote implements mem.Memory.
func (t *Table) CheckRemote(pd, qpn, rkey uint32, addr uint64, n uint32, need verbs.Access) mem.Fault {
	if n == 0 {
		return mem.FaultNone
	}
	_, f := t.remote(pd, qpn, rkey, addr, uint64(n), need)
	return f
}

// ReadRemote implements mem.Memory. After FaultBackend dst is undefined.
func (t *Table) ReadRemote(pd, qpn, rkey uint32, addr uint64, dst []byte) mem.Fault {
	if len(dst) == 0 {
		return mem.FaultNone
	}
	e, f := t.remote(pd, qpn, rkey, addr, uint64(len(dst)), verbs.AccessRemoteRead)
	if f != mem.FaultNone {
		return f
	}
	return e.read(addr, dst)
}

// TransformLocal implements mem.Transformer.
func (t *Table) TransformLocal(pd, lkey uint32, addr uint64, dst []byte, by mem.Transform) mem.Fault {
	e, f := t.local(pd, lkey, addr, uint64(len(dst)), 0)
	if f != mem.FaultNone {
		return f
	}
	return e.transform(addr, dst, by)
}

// TransformRemote implements mem.Transformer.
func (t *Table) TransformRemote(pd, qpn, rkey uint32, addr uint64, dst []byte, by mem.Transform) mem.Fault {
	e, f := t.remote(pd, qpn, rkey, addr, uint64(len(dst)), verbs.AccessRemoteRead)
	if f != mem.FaultNone {
		return f
	}
	return e.transform(addr, dst, by)
}

// WriteRemote implements mem.Memory. After FaultBackend the bytes of the range
// are undefined; none outside it changed.
func (t *Table) WriteRemote(pd, qpn, rkey uint32, addr uint64, src []byte) mem.Fault {
	if len(src) == 0 {
		return mem.FaultNone
	}
	e, f := t.remote(pd, qpn, rkey, addr, uint64(len(src)), verbs.AccessRemoteWrite)
	if f != mem.FaultNone {
		return f
	}
	return e.write(addr, src)
}

// EndWrite implements mem.Memory: it calls Spec.Arrived of the region.
func (t *Table) EndWrite(pd uint32, a mem.Arrival) {
	e := t.find(a.RKey)
	if e == nil || e.arrived == nil || e.enter() != mem.FaultNone {
		return
	}
	e.arrived(a, e.first+(a.Addr-e.va))
	e.leave()
}

// CompareSwap implements mem.Memory. It is atomic towards all other atomics on the
// same memory, through whatever key, and in host memory towards sync/atomic too.
func (t *Table) CompareSwap(pd, qpn, rkey uint32, addr, compare, swap uint64) (uint64, mem.Fault) {
	e, f := t.atomic(pd, qpn, rkey, addr)
	if f != mem.FaultNone {
		return 0, f
	}
	return e.compareSwap(addr, compare, swap)
}

// FetchAdd implements mem.Memory, as atomic as CompareSwap.
func (t *Table) FetchAdd(pd, qpn, rkey uint32, addr, add uint64) (uint64, mem.Fault) {
	e, f := t.atomic(pd, qpn, rkey, addr)
	if f != mem.FaultNone {
		return 0, f
	}
	return e.fetchAdd(addr, add)
}

// atomic judges an access of 8 bytes. Alignment comes last, so that a
// peer without the right key learns nothing from it.
func (t *Table) atomic(pd, qpn, rkey uint32, addr uint64) (*entry, mem.Fault) {
	e, f := t.remote(pd, qpn, rkey, addr, 8, verbs.AccessRemoteAtomic)
	if f != mem.FaultNone {
		return nil, f
	}
	if addr%8 != 0 {
		return nil, mem.FaultAlign
	}
	return e, mem.FaultNone
}
