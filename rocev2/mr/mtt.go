// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Backend is memory that is not a slice of this process, such as the card's DDR
// (S2.1) or another process. Addresses are its own. Methods may be called by
// several goroutines at once; they do not allocate and do not keep the slices.
// Calls stay within the pages that were registered. An error fails the access; its
// text goes nowhere, so log it where it occurs.
type Backend interface {
	ReadAt(dst []byte, addr uint64) error
	WriteAt(src []byte, addr uint64) error

	// The atomics act on the 8 bytes at addr, a multiple of 8, in the byte order of
	// this machine, and return what was there. They must be atomic towards each
	// other, whatever region they come from.
	CompareSwap(addr, compare, swap uint64) (old uint64, err error)
	FetchAdd(addr, add uint64) (old uint64, err error)
}

// Pages is a piece of a backend's memory, page by page (IBTA 11.2.8, Register
// Physical Memory Region).
type Pages struct {
	Backend  Backend
	PageSize uint64   // a power of 2, at least 8
	Addrs    []uint64 // address of each page, multiples of PageSize, in any order
	First    uint64   // offset of the first byte in the first page
	Length   uint64   // bytes
}

// mtt is the translation table of one region: from its bytes to the addresses of
// a backend.
type mtt struct {
	backend Backend
	shift   uint // log2 of the page size
	first   uint64
	pages   []uint64
}

func newMTT(p Pages) (*mtt, error) {
	size := p.PageSize
	switch {
	case p.Backend == nil:
		return nil, fmt.Errorf("%w: pages without a backend", verbs.ErrRange)
	case size < 8 || bits.OnesCount64(size) != 1:
		return nil, fmt.Errorf("%w: page size %d; use a power of 2 from 8 on", verbs.ErrRange, size)
	case p.First >= size:
		return nil, fmt.Errorf("%w: the first byte is at offset %d of a page of %d bytes", verbs.ErrRange, p.First, size)
	case p.First+p.Length < p.Length || p.First+p.Length > math.MaxUint64-size ||
		(p.First+p.Length+size-1)/size != uint64(len(p.Addrs)):
		return nil, fmt.Errorf("%w: %d bytes at offset %d do not take %d pages of %d bytes", verbs.ErrRange, p.Length, p.First, len(p.Addrs), size)
	}
	for _, a := range p.Addrs {
		if a%size != 0 {
			return nil, fmt.Errorf("%w: page address %#x is no multiple of the page size %d", verbs.ErrRange, a, size)
		}
		if a > math.MaxUint64-size { // run adds the size
			return nil, fmt.Errorf("%w: page address %#x is the last page of all addresses", verbs.ErrRange, a)
		}
	}
	return &mtt{
		backend: p.Backend, shift: uint(bits.TrailingZeros64(size)), first: p.First,
		pages: slices.Clone(p.Addrs),
	}, nil
}

// at translates an offset in the region to the backend's address.
func (m *mtt) at(off uint64) uint64 {
	off += m.first
	return m.pages[off>>m.shift] + off&(1<<m.shift-1)
}

// run returns where the n bytes from offset off on are, and how many of them are
// there in one piece: pages that follow each other count as one.
func (m *mtt) run(off, n uint64) (addr, got uint64) {
	off += m.first
	size := uint64(1) << m.shift
	i := off >> m.shift
	addr = m.pages[i] + off&(size-1)
	got = size - off&(size-1)
	for got < n && m.pages[i+1] == m.pages[i]+size {
		got += size
		i++
	}
	return addr, min(got, n)
}

func (m *mtt) read(off uint64, dst []byte) error {
	for len(dst) > 0 {
		addr, n := m.run(off, uint64(len(dst)))
		if err := m.backend.ReadAt(dst[:n], addr); err != nil {
			return err
		}
		dst, off = dst[n:], off+n
	}
	return nil
}

func (m *mtt) write(off uint64, src []byte) error {
	for len(src) > 0 {
		addr, n := m.run(off, uint64(len(src)))
		if err := m.backend.WriteAt(src[:n], addr); err != nil {
			return err
		}
		src, off = src[n:], off+n
	}
	return nil
}
