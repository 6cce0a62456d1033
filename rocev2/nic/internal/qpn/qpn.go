// SPDX-License-Identifier: Apache-2.0

// Package qpn allocates queue pair numbers (QPNs) and finds the owner of a number.
//
// A number has 24 bits (IBTA 9.2.7). Those of this package are
//
//	1(1)  out-of-order mode(1)  generation(6)  slot(16)
//
// Slot and generation are random: a host that does not see the packets of a queue pair has to try 2^22 numbers
// (docs/run/security.md). The slot is an index, which makes the look-up of a received packet one load. The
// generation changes each time a slot is used again, so that late packets of a destroyed
// queue pair find none. The top bit tells numbers of this package from those of rxe, which
// are 16 to 0x20000 (RXE_MAX_QP_INDEX): both may work on one interface, and two engines
// recognise each other's queue pairs (OfEngine). The next bit is that of queue pairs in out-of-order
// mode, between engines that have announced it (OutOfOrder).
//
// # Shards
//
// Where an engine has several shards, a power of two of them, the highest bits of the slot are the shard of the queue
// pair (ShardOf). A shard has a Table of its own, with the slots of these numbers. The bits are the highest ones because
// the lowest ones are used as a hash of the number, as in bpf/lib/dest.h: they are random in each shard.
package qpn

import (
	"crypto/rand"
	"encoding/binary"
	"iter"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	engineBit = 0x800000
	oooBit    = 0x400000
	slotBits  = 16
	slotMask  = Max - 1 // the slot among those of all shards
	genMask   = 0x3F

	// Max is how many numbers an engine has in use at once.
	Max = 1 << slotBits
)

// OfEngine reports whether n is a number that a Table can allocate: the queue pair belongs
// to a softroce engine, not to rxe.
func OfEngine(n uint32) bool {
	return n&engineBit != 0 && n < rocev2.ControlQPN
}

// OutOfOrder reports whether n is a number for queue pairs in out-of-order mode. Engines that do not
// announce the mode use these numbers for all queue pairs.
func OutOfOrder(n uint32) bool { return OfEngine(n) && n&oooBit != 0 }

// ShardOf returns the shard of a number, of an engine with that many shards, a power of two.
func ShardOf(n, shards uint32) uint32 { return n & slotMask / (Max / shards) }

// Table maps the numbers of a shard that are in use to their owners. The zero value is empty, and that of an engine with
// one shard. It belongs to one goroutine.
type Table[T any] struct {
	// Rand gives random numbers. nil: those of crypto/rand.
	Rand func() uint32

	// Shard is the number of the shard among Shards, a power of two up to Max. 0 shards count as 1.
	Shard, Shards uint32

	slots []slot[T] // Max / Shards, or none before the first number
	count int
}

// slot has the number that is in use, or the last one that was, and its owner, nil if none.
type slot[T any] struct {
	owner *T
	num   uint32
}

// Alloc allocates a number for x.
func (t *Table[T]) Alloc(x *T) (uint32, error) { return t.alloc(x, 0) }

// AllocOutOfOrder allocates a number for x that OutOfOrder recognises.
func (t *Table[T]) AllocOutOfOrder(x *T) (uint32, error) { return t.alloc(x, oooBit) }

func (t *Table[T]) alloc(x *T, mode uint32) (uint32, error) {
	if t.slots == nil {
		t.slots = make([]slot[T], Max/max(t.Shards, 1))
	}
	if t.count == len(t.slots) {
		return 0, verbs.ErrTooMany
	}
	i := t.freeSlot()
	s := &t.slots[i]
	s.num = t.number(s.num, t.Shard*uint32(len(t.slots))+i, mode)
	s.owner = x
	t.count++
	return s.num, nil
}

// freeSlot returns a random slot without an owner. If most are in use, it is one near a random one.
func (t *Table[T]) freeSlot() (i uint32) {
	const tries = 32
	for range tries {
		if i = t.random() & t.mask(); t.slots[i].owner == nil {
			return i
		}
	}
	for t.slots[i].owner != nil {
		i = (i + 1) & t.mask()
	}
	return i
}

// mask has the bits of a number that are the index of its slot.
func (t *Table[T]) mask() uint32 { return uint32(len(t.slots)) - 1 }

// number returns a number of slot i, of those of all shards, in a random generation: another one than the last. The highest numbers are
// rocev2.ControlQPN and the multicast QPN. mode is 0 or oooBit.
func (t *Table[T]) number(last, i, mode uint32) uint32 {
	for {
		n := engineBit | mode | t.random()&genMask<<slotBits | i
		if n < rocev2.ControlQPN && n != last {
			return n
		}
	}
}

func (t *Table[T]) random() uint32 {
	if t.Rand != nil {
		return t.Rand()
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.NativeEndian.Uint32(b[:])
}

// Free returns a number. A number that is not in use is left as it is.
func (t *Table[T]) Free(n uint32) {
	if t.Lookup(n) != nil {
		t.slots[n&t.mask()].owner = nil
		t.count--
	}
}

// Lookup returns the owner of a number, or nil if it is not in use. It does not read the
// owner's memory.
func (t *Table[T]) Lookup(n uint32) *T {
	i := n & t.mask()
	if int(i) >= len(t.slots) { // there are none
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
