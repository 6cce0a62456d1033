// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// entry is what a key stands for: a region, or a window as it is bound. All but
// closed and users is constant once the entry is in the table.
type entry struct {
	key    uint32
	pd     uint32
	qpn    uint32 // window: the queue pair it is bound to
	access verbs.Access
	closed atomic.Uint32 // mem.Fault of everybody who comes from now on

	va     uint64 // first address under this key
	length uint64 // bytes, never beyond 2^64-va
	host   []byte // the bytes, if they are contiguous memory of this process
	pages  *mtt   // else where they are, from byte first on
	first  uint64 // window: offset of its first byte in the region

	arrived func(a mem.Arrival, offset uint64) // Spec.Arrived
	region  *Region                            // owner of the memory; nil for a window that is not bound
	window  *Window                            // nil for a region

	_     [64]byte // users is written with each access: keep it off the line of the rest
	users atomic.Int64
}

// withdrawn is added to users when the entry closes; below zero nobody may enter.
const withdrawn = math.MinInt64 / 2

// admits judges an access of n bytes at addr, in the order of the faults.
func (e *entry) admits(pd uint32, addr, n uint64, need verbs.Access) mem.Fault {
	if e.pd != pd {
		return mem.FaultPD
	}
	if f := e.closed.Load(); f != 0 {
		return mem.Fault(f)
	}
	if !e.contains(addr, n) {
		return mem.FaultRange
	}
	if e.access&need != need {
		return mem.FaultRights
	}
	return mem.FaultNone
}

// contains reports whether [addr, addr+n) lies within the entry. An address
// below va wraps to an offset that is too large; a sum that could wrap is not formed.
func (e *entry) contains(addr, n uint64) bool {
	off := addr - e.va
	return off <= e.length && n <= e.length-off
}

// enter counts the caller in until leave, or says why not.
func (e *entry) enter() mem.Fault {
	if e.users.Add(1) > 0 {
		return mem.FaultNone
	}
	e.users.Add(-1)
	return mem.Fault(e.closed.Load())
}

func (e *entry) leave() { e.users.Add(-1) }

// close refuses all further accesses with f. The table's lock must be held.
func (e *entry) close(f mem.Fault) {
	if e.closed.Swap(uint32(f)) == 0 {
		e.users.Add(withdrawn)
	}
}

// drain waits until the accesses that were in progress when close was called have
// ended.
func (e *entry) drain() {
	for i := 0; e.users.Load() != withdrawn; i++ {
		if i < 100 {
			runtime.Gosched()
		} else {
			time.Sleep(20 * time.Microsecond)
		}
	}
}

// read, transform, write, compareSwap and fetchAdd touch memory that admits has granted,
// unless the entry was closed in between.

func (e *entry) read(addr uint64, dst []byte) mem.Fault {
	if f := e.enter(); f != mem.FaultNone {
		return f
	}
	off, f := addr-e.va, mem.FaultNone
	if e.pages == nil {
		f = guardedCopy(dst, e.host[off:off+uint64(len(dst))])
	} else {
		f = backendFault(e.pages.read(e.first+off, dst))
	}
	e.leave()
	return f
}

// transform is read with by.Put in the place of the copy.
func (e *entry) transform(addr uint64, dst []byte, by mem.Transform) mem.Fault {
	if e.pages != nil { // the bytes may lie apart
		f := e.read(addr, dst)
		if f == mem.FaultNone {
			by.Put(dst, dst)
		}
		return f
	}
	if f := e.enter(); f != mem.FaultNone {
		return f
	}
	off := addr - e.va
	f := guardedPut(by, dst, e.host[off:off+uint64(len(dst))])
	e.leave()
	return f
}

func (e *entry) write(addr uint64, src []byte) mem.Fault {
	if f := e.enter(); f != mem.FaultNone {
		return f
	}
	off, f := addr-e.va, mem.FaultNone
	if e.pages == nil {
		f = guardedCopy(e.host[off:off+uint64(len(src))], src)
	} else {
		f = backendFault(e.pages.write(e.first+off, src))
	}
	e.leave()
	return f
}

func (e *entry) compareSwap(addr, compare, swap uint64) (old uint64, f mem.Fault) {
	if f = e.enter(); f != mem.FaultNone {
		return 0, f
	}
	off := addr - e.va
	if e.pages == nil {
		old, f = guardedCompareSwap(e.host[off:off+8], compare, swap)
	} else {
		var err error
		old, err = e.pages.backend.CompareSwap(e.pages.at(e.first+off), compare, swap)
		f = backendFault(err)
	}
	e.leave()
	return old, f
}

func (e *entry) fetchAdd(addr, add uint64) (old uint64, f mem.Fault) {
	if f = e.enter(); f != mem.FaultNone {
		return 0, f
	}
	off := addr - e.va
	if e.pages == nil {
		old, f = guardedFetchAdd(e.host[off:off+8], add)
	} else {
		var err error
		old, err = e.pages.backend.FetchAdd(e.pages.at(e.first+off), add)
		f = backendFault(err)
	}
	e.leave()
	return old, f
}

func backendFault(err error) mem.Fault {
	if err != nil {
		return mem.FaultBackend
	}
	return mem.FaultNone
}

// aligned reports whether an address that is a multiple of 8 is a multiple of 8
// in the memory behind it too. Without that there are no atomics.
func (e *entry) aligned() bool {
	if e.pages == nil {
		return (addressOf(e.host)-e.va)%8 == 0
	}
	return (e.pages.first+e.first-e.va)%8 == 0
}
