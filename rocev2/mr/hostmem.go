// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// This file has all of the package's unsafe code: the address of a slice, and a
// word of it for sync/atomic.

// addressOf returns the virtual address of the first byte.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// word views 8 bytes as a number in host order. Registration made sure that they
// are aligned; a mistake there must not become a torn atomic.
func word(b []byte) *uint64 {
	p := unsafe.Pointer(unsafe.SliceData(b[:8]))
	if uintptr(p)%8 != 0 {
		panic("mr: atomic on memory that is not aligned")
	}
	return (*uint64)(p)
}

func compareSwap(b []byte, compare, swap uint64) (old uint64) {
	p := word(b)
	for {
		old = atomic.LoadUint64(p)
		if old != compare || atomic.CompareAndSwapUint64(p, compare, swap) {
			return old
		}
	}
}

func fetchAdd(b []byte, add uint64) (old uint64) { return atomic.AddUint64(word(b), add) - add }

// Arena is memory of this process as a Backend, for regions whose pages lie apart in
// one mapping. Addresses are offsets.
type Arena []byte

// NewArena returns b as a backend. Its address must be a multiple of 8; mappings are.
func NewArena(b []byte) (Arena, error) {
	if addressOf(b)%8 != 0 {
		return nil, fmt.Errorf("mr: arena: %w: its memory is not aligned to 8 bytes", verbs.ErrRange)
	}
	return Arena(b), nil
}

func (a Arena) piece(addr uint64, n int) ([]byte, error) {
	if size := uint64(len(a)); addr > size || uint64(n) > size-addr {
		return nil, errOutside
	}
	return a[addr : addr+uint64(n)], nil
}

var errOutside = fmt.Errorf("mr: arena: %w: outside of it", verbs.ErrRange)

// ReadAt implements Backend.
func (a Arena) ReadAt(dst []byte, addr uint64) error {
	p, err := a.piece(addr, len(dst))
	copy(dst, p)
	return err
}

// WriteAt implements Backend.
func (a Arena) WriteAt(src []byte, addr uint64) error {
	p, err := a.piece(addr, len(src))
	copy(p, src)
	return err
}

// CompareSwap implements Backend.
func (a Arena) CompareSwap(addr, compare, swap uint64) (uint64, error) {
	p, err := a.piece(addr, 8)
	if err != nil {
		return 0, err
	}
	return compareSwap(p, compare, swap), nil
}

// FetchAdd implements Backend.
func (a Arena) FetchAdd(addr, add uint64) (uint64, error) {
	p, err := a.piece(addr, 8)
	if err != nil {
		return 0, err
	}
	return fetchAdd(p, add), nil
}
