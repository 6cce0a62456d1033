// SPDX-License-Identifier: Apache-2.0

// Package qpn allocates queue pair numbers (QPNs) and finds the owner of a number.
//
// A number has 24 bits (IBTA 9.2.7). Those of this package are
//
//	1(1)  out-of-order mode(1)  generation(6)  slot(16)
//
// The slot is an index, which makes the look-up of a received packet one load. The
// generation changes each time a slot is used again, so that late packets of a destroyed
// queue pair find none. The top bit tells numbers of this package from those of rxe, which
// are 16 to 0x20000 (RXE_MAX_QP_INDEX): both may work on one interface, and two engines
// recognise each other's queue pairs (OfEngine). The next bit is that of queue pairs in out-of-order
// mode, between engines that have announced it (OutOfOrder).
package qpn

import (
	"iter"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	engineBit = 0x800000
	orderBit  = 0x400000
	slotBits  = 16
	slotMask  = Max - 1
	genMask   = 0x3F

	// Max is how many numbers a Table has in use at once.
	Max = 1 << slotBits

	// reuseAfter is how many slots are free before the first of them is used again.
	reuseAfter = 1024
)

// OfEngine reports whether n is a number that a Table can allocate: the queue pair belongs
// to a softroce engine, not to rxe.
func OfEngine(n uint32) bool {
	return n&engineBit != 0 && n < rocev2.ControlQPN
}

// OutOfOrder reports whether n is a number for queue pairs in out-of-order mode. Engines that do not
// announce the mode use these numbers for all queue pairs.
func OutOfOrder(n uint32) bool { return OfEngine(n) && n&orderBit != 0 }

// Table maps the numbers in use to their owners. The zero value is empty. It belongs to
// one goroutine.
type Table[T any] struct {
	slots []slot[T]
	free  []uint32 // indices of slots, the oldest first
	count int
}

// slot has the number that is in use, or the last one that was, and its owner, nil if none.
type slot[T any] struct {
	owner *T
	num   uint32
}

// Alloc allocates a number for x. A slot that was freed is used again as late as possible.
func (t *Table[T]) Alloc(x *T) (uint32, error) { return t.alloc(x, 0) }

// AllocOutOfOrder allocates a number for x that OutOfOrder recognises.
func (t *Table[T]) AllocOutOfOrder(x *T) (uint32, error) { return t.alloc(x, orderBit) }

func (t *Table[T]) alloc(x *T, mode uint32) (uint32, error) {
	i := uint32(len(t.slots))
	switch {
	case len(t.free) > 0 && (len(t.free) >= reuseAfter || i == Max):
		i = t.free[0]
		t.free = t.free[1:]
		t.slots[i].num = nextGeneration(t.slots[i].num, mode)
	case i == Max:
		return 0, verbs.ErrTooMany
	default:
		t.slots = append(t.slots, slot[T]{num: engineBit | mode | i})
	}
	t.slots[i].owner = x
	t.count++
	return t.slots[i].num, nil
}

// nextGeneration returns the number of the same slot in the next generation. The highest
// numbers are rocev2.ControlQPN and the multicast QPN: their slots start again at 0.
// mode is 0 or orderBit.
func nextGeneration(n, mode uint32) uint32 {
	i, gen := n&slotMask, (n>>slotBits+1)&genMask
	if n = engineBit | mode | gen<<slotBits | i; n >= rocev2.ControlQPN {
		n = engineBit | mode | i
	}
	return n
}

// Free returns a number. A number that is not in use is left as it is.
func (t *Table[T]) Free(n uint32) {
	if t.Lookup(n) != nil {
		i := n & slotMask
		t.slots[i].owner = nil
		t.free = append(t.free, i)
		t.count--
	}
}

// Lookup returns the owner of a number, or nil if it is not in use. It does not read the
// owner's memory.
func (t *Table[T]) Lookup(n uint32) *T {
	i := n & slotMask
	if int(i) >= len(t.slots) {
		return nil
	}
	if s := &t.slots[i]; s.num == n {
		return s.owner
	}
	return nil
}

// Len is how many numbers are in use.
func (t *Table[T]) Len() int { return t.count }

// All iterates over the owners in the order of their slots.
func (t *Table[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range t.slots {
			if x := t.slots[i].owner; x != nil && !yield(x) {
				return
			}
		}
	}
}

// Slots is the number of slots, of which each has an entry or none.
func (t *Table[T]) Slots() int { return len(t.slots) }

// At returns the entry of a slot, or nil: All in parts.
func (t *Table[T]) At(slot int) *T { return t.slots[slot].owner }
