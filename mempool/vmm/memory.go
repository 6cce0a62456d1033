// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// memory is the local memory of a region (hostMemory) or of a map (uffdMemory). Its methods
// are called with the lock of the space.
type memory interface {
	// install makes data, or zeroes if data is nil, the content of a page that is not resident.
	// Without writable, the first write to the page is reported as a fault where writes are not
	// seen otherwise.
	install(page int64, data []byte, writable bool) error
	// allow lets accesses to a resident page proceed; writes as well if writable.
	allow(page int64, writable bool) error
	// protect reports the next write to a page as a fault.
	protect(page int64) error
	// snapshot copies the content of a resident, protected page.
	snapshot(page int64, data []byte) error
	// drop frees the memory of a page.
	drop(page int64) error
	// poison makes all accesses to a page that is not resident fail, for ever. It returns false
	// if an access can return an error instead, so that the next one may succeed.
	poison(page int64) bool
	// hidden reports that accesses to resident pages are not seen.
	hidden() bool
}

// hostMemory is memory of this process that only Region accesses: pages that are not resident
// have no memory, and are never touched.
type hostMemory struct {
	bytes []byte
}

func newHostMemory(size int) (*hostMemory, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("vmm: %d bytes of address space: %w", size, err)
	}
	// A huge page would take the memory of pages that are not resident.
	_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE) // EINVAL: a kernel without huge pages
	return &hostMemory{bytes: b}, nil
}

func (m *hostMemory) page(n int64) []byte { return m.bytes[n*PageSize:][:PageSize:PageSize] }

func (m *hostMemory) install(n int64, data []byte, _ bool) error {
	if data != nil {
		copy(m.page(n), data)
	}
	return nil // a page that was dropped is zero
}

func (m *hostMemory) allow(int64, bool) error { return nil }
func (m *hostMemory) protect(int64) error     { return nil }

func (m *hostMemory) snapshot(n int64, data []byte) error {
	copy(data, m.page(n))
	return nil
}

func (m *hostMemory) drop(n int64) error {
	return unix.Madvise(m.page(n), unix.MADV_DONTNEED)
}

func (m *hostMemory) poison(int64) bool { return false }
func (m *hostMemory) hidden() bool      { return false }
func (m *hostMemory) free() error       { return unix.Munmap(m.bytes) }
