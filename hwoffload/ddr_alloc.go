// SPDX-License-Identifier: Apache-2.0

package hwoffload

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"sync"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/internal/spans"
)

const (
	// Banks is the number of banks of the card's memory (S2.1).
	Banks = regs.DdrBanksReset

	// Stripe is how many bytes of an interleaved allocation lie in one bank before it continues in
	// the next one.
	Stripe = 64 << 10

	// AllocUnit is the smallest alignment of an allocation, and what its size in a bank is rounded
	// up to, in bytes.
	AllocUnit = 4096

	maxAlign = 1 << 30
)

// ErrDDRFull is the error of an allocation for which the card's memory has no room.
var ErrDDRFull = errors.New("the card's memory has no room")

// Allocator divides the card's memory among its users. It keeps no data on the card. All methods
// may be called concurrently.
type Allocator struct {
	lock sync.Mutex
	free [Banks]spans.List // DDR addresses
}

// NewAllocator returns an allocator of the whole memory.
func NewAllocator() *Allocator {
	a := &Allocator{}
	for b := range a.free {
		a.free[b] = spans.New(uint64(b)*regs.DdrBankBytesReset, regs.DdrBankBytesReset)
	}
	return a
}

// Available returns the free bytes of each bank.
func (a *Allocator) Available() (bytes [Banks]uint64) {
	a.lock.Lock()
	defer a.lock.Unlock()
	for b := range a.free {
		bytes[b] = a.free[b].Available()
	}
	return bytes
}

// Alloc reserves memory that is interleaved over the banks: stripe i lies in the bank behind
// that of stripe i-1, and the first stripe in the bank with the most free bytes. All banks take
// part in an access to more than three stripes.
//
// align is a power of two up to 1 GB, or 0. The first byte of each bank's part is at a multiple
// of align and of AllocUnit.
func (a *Allocator) Alloc(bytes, align uint64) (*Space, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	first := 0
	for b := range a.free {
		if a.free[b].Available() > a.free[first].Available() {
			first = b
		}
	}
	return a.alloc(&Space{alloc: a, bytes: bytes, stripe: Stripe, first: first, banks: Banks}, align)
}

// AllocBank reserves contiguous memory in one bank. align is as in Alloc.
func (a *Allocator) AllocBank(bank int, bytes, align uint64) (*Space, error) {
	if bank < 0 || bank >= Banks {
		return nil, fmt.Errorf("card memory: bank %d: a card has banks 0 to %d", bank, Banks-1)
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.alloc(&Space{alloc: a, bytes: bytes, stripe: regs.DdrBankBytesReset, first: bank, banks: 1}, align)
}

func (a *Allocator) alloc(s *Space, align uint64) (*Space, error) {
	if s.bytes == 0 || s.bytes > DDRBytes {
		return nil, fmt.Errorf("card memory: %d bytes: an allocation has 1 to %d", s.bytes, int64(DDRBytes))
	}
	if bits.OnesCount64(align) > 1 || align > maxAlign {
		return nil, fmt.Errorf("card memory: alignment %d: use a power of two up to %d", align, maxAlign)
	}
	s.align = max(align, AllocUnit)
	for j := range s.banks {
		n := s.bytesOf(j)
		if n == 0 {
			break
		}
		bank := (s.first + j) % Banks
		part, ok := a.free[bank].Take(n, s.align)
		if !ok {
			for i, part := range s.parts {
				a.free[(s.first+i)%Banks].Give(part)
			}
			return nil, fmt.Errorf("%w: %d bytes need %d contiguous ones in bank %d, aligned to %d; it has %d free in %d pieces",
				ErrDDRFull, s.bytes, n, bank, s.align, a.free[bank].Available(), a.free[bank].Pieces())
		}
		s.parts = append(s.parts, part)
	}
	return s, nil
}

// Space is reserved memory of the card.
type Space struct {
	alloc  *Allocator
	bytes  uint64
	align  uint64
	stripe uint64
	first  int // bank of the first stripe
	banks  int // number of banks over which it is interleaved
	parts  []spans.Span
	freed  bool // guarded by alloc.lock
}

// Size is the size of the memory in bytes.
func (s *Space) Size() uint64 { return s.bytes }

// bytesOf is how many bytes the j-th bank of the allocation must have.
func (s *Space) bytesOf(j int) uint64 {
	stripes, banks := (s.bytes+s.stripe-1)/s.stripe, uint64(s.banks)
	if uint64(j) >= stripes {
		return 0
	}
	n := (stripes - uint64(j) + banks - 1) / banks * s.stripe
	if (stripes-1)%banks == uint64(j) { // it has the last stripe
		n -= stripes*s.stripe - s.bytes
	}
	return (n + AllocUnit - 1) &^ (AllocUnit - 1)
}

// Address is the DDR address of a byte of the memory. It panics if off is not in it.
func (s *Space) Address(off uint64) uint64 {
	if off >= s.bytes {
		panic(fmt.Sprintf("card memory: offset %d of %d bytes", off, s.bytes))
	}
	i := off / s.stripe
	return s.parts[i%uint64(s.banks)].From + i/uint64(s.banks)*s.stripe + off%s.stripe
}

// Bank is the bank of a DDR address.
func Bank(addr uint64) int { return int(addr / regs.DdrBankBytesReset) }

// Ranges yields the DDR addresses of a part of the memory: contiguous ranges in order, each in
// one bank. The key is the DDR address and the value the number of bytes. It panics if the part
// is not in the memory.
func (s *Space) Ranges(off, bytes uint64) iter.Seq2[uint64, uint64] {
	return func(yield func(addr, bytes uint64) bool) {
		for bytes > 0 {
			n := min(bytes, s.stripe-off%s.stripe)
			if !yield(s.Address(off), n) {
				return
			}
			off, bytes = off+n, bytes-n
		}
	}
}

// Pages returns the DDR addresses of the memory's pages, for block mtt (S2.2). size is a power
// of two from AllocUnit to Stripe, and at most the alignment of the allocation.
func (s *Space) Pages(size uint64) ([]uint64, error) {
	if bits.OnesCount64(size) != 1 || size < AllocUnit || size > min(Stripe, s.align) {
		return nil, fmt.Errorf("card memory: pages of %d bytes: use a power of two from %d to %d, which is at most the alignment of the allocation",
			size, AllocUnit, min(Stripe, s.align))
	}
	pages := make([]uint64, 0, (s.bytes+size-1)/size)
	for off := uint64(0); off < s.bytes; off += size {
		pages = append(pages, s.Address(off))
	}
	return pages, nil
}

// PageSize is the log2 of the largest size that Pages takes.
func (s *Space) PageSize() int { return bits.TrailingZeros64(min(Stripe, s.align)) }

// Free returns the memory. A second call is an error and changes nothing.
func (s *Space) Free() error {
	s.alloc.lock.Lock()
	defer s.alloc.lock.Unlock()
	if s.freed {
		return errors.New("card memory: it was freed before")
	}
	s.freed = true
	for j, part := range s.parts {
		s.alloc.free[(s.first+j)%Banks].Give(part)
	}
	return nil
}
