// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// This file has all of the package's unsafe code: words of a mapping for sync/atomic.

// word32 views 4 bytes of a mapping as a word.
func word32(b []byte, at int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(b[at : at+4])))
}

// word64 views 8 bytes of a mapping as a word.
func word64(b []byte, at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(b[at : at+8])))
}

// checkAligned refuses memory whose words would share cache lines. Mappings begin at a page.
func checkAligned(b []byte) error {
	if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%line != 0 {
		return fmt.Errorf("ring: memory that is not aligned to %d bytes: use a mapping", line)
	}
	return nil
}

// Word returns the word of a ring at the start of b: 0 producer, 1 consumer, 2 armed, 3 state. It is
// for tests of the other side.
func Word(b []byte, i int) *atomic.Uint32 { return word32(b, i*line) }
