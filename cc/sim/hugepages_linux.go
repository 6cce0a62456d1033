// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"syscall"
	"unsafe"
)

// hugeBytes is from what size on large pages are asked for.
const hugeBytes = 256 << 10

// madvCollapse is MADV_COLLAPSE of Linux 6.1: memory that was in use before gets
// large pages too.
const madvCollapse = 25

// hugeSlice makes a slice of zeros in large pages, if it is large. A large network's
// state is met in no order that memory knows, and with pages of 4 KiB nearly every
// access also waits for the address to be translated. Where the kernel has no large
// pages to give it stays as it is.
func hugeSlice[T any](n int) []T {
	s := make([]T, n)
	if size := n * int(unsafe.Sizeof(s[0])); size >= hugeBytes {
		b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), size)
		if syscall.Madvise(b, syscall.MADV_HUGEPAGE) == nil {
			_ = syscall.Madvise(b, madvCollapse) // only an attempt
		}
	}
	return s
}
