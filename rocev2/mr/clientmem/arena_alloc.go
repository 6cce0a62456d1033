// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/spans"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// align is where buffers begin: two cache lines, which processors fetch together, so that
// neighbours do not share them.
const align = 128

// Alloc returns n bytes of the arena that no other buffer has, at a multiple of 128. Their
// content is undefined; their pages are there. One process of those that have mapped the
// arena allocates. The error wraps ErrFull or verbs.ErrRange.
func (a *Arena) Alloc(n int) ([]byte, error) {
	if n < 1 || n > len(a.data) {
		return nil, fmt.Errorf("arena: %w: a buffer of %d bytes; this arena has %d bytes", verbs.ErrRange, n, len(a.data))
	}
	a.mu.Lock()
	s, ok := a.free.Take(rounded(n), align)
	free, pieces := a.free.Available(), a.free.Pieces()
	a.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("arena: %w: %d bytes, and %d are free in %d pieces; free buffers or create a larger arena", ErrFull, n, free, pieces)
	}
	b := a.data[s.From : s.From+uint64(n) : s.From+uint64(n)]
	if err := a.populate(s); err != nil {
		a.mu.Lock()
		a.free.Give(s)
		a.mu.Unlock()
		return nil, err
	}
	return b, nil
}

// populate has the kernel provide the pages now and not in the data path of the NIC. A kernel
// that does not have MADV_POPULATE_WRITE (before Linux 5.14) provides them when they are used.
func (a *Arena) populate(s spans.Span) error {
	page := uint64(unix.Getpagesize())
	from, to := s.From/page*page, (s.From+s.N+page-1)/page*page
	for {
		switch err := unix.Madvise(a.data[from:min(to, uint64(len(a.data)))], unix.MADV_POPULATE_WRITE); err {
		case nil, unix.EINVAL:
			return nil
		case unix.EINTR, unix.EAGAIN:
		default:
			return fmt.Errorf("arena: no memory for %d bytes: %w", s.N, err)
		}
	}
}

// Free returns a buffer of Alloc, as a whole. It panics if b is none.
func (a *Arena) Free(b []byte) {
	offset, ok := a.Offset(b)
	if !ok || offset%align != 0 {
		panic("arena: Free of memory that Alloc has not returned")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free.Give(spans.Span{From: offset, N: rounded(cap(b))})
}

// rounded is the room that a buffer takes.
func rounded(n int) uint64 { return (uint64(n) + align - 1) / align * align }

// Offset returns where in the arena b begins. It returns false if b is not memory of it.
func (a *Arena) Offset(b []byte) (offset uint64, ok bool) {
	offset = addressOf(b) - addressOf(a.data)
	size := uint64(len(a.data))
	return offset, len(b) > 0 && offset < size && uint64(len(b)) <= size-offset
}
