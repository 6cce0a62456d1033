// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"sync/atomic"
	"unsafe"
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
