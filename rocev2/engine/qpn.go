// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/rand"
	"encoding/binary"
	"iter"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Queue pair numbers (QPNs) have 24 bits (IBTA 9.2.7). Those of this package are
//
//	1(1)  out-of-order mode(1)  generation(6)  slot(16)
//
// Slot and generation are random: a host that does not see the packets of a queue pair has to try 2^22 numbers
// (docs/run/security.md). The slot is an index, which makes the look-up of a received packet one load. The
// generation changes each time a slot is used again, so that late packets of a destroyed
// queue pair find none. The top bit tells numbers of this package from those of rxe, which
// are 16 to 0x20000 (RXE_MAX_QP_INDEX): both may work on one interface, and two engines
// recognise each other's queue pairs (ofEngine). The next bit is that of queue pairs in out-of-order
// mode, between engines that have announced it (isOutOfOrder).
//
// Where an engine has several shards, a power of two of them, the highest bits of the slot are the shard of the queue
// pair (ShardOf). A shard has a qpnTable of its own, with the slots of these numbers. The bits are the highest ones because
// the lowest ones are used as a hash of the number, as in bpf/lib/dest.h: they are random in each shard.

const (
	engineBit   = 0x800000
	oooBit      = 0x400000
	qpnSlotBits = 16
	qpnSlotMask = maxQPNs - 1 // the slot among those of all shards
	genMask     = 0x3F

	// maxQPNs is how many numbers an engine has in use at once.
	maxQPNs = 1 << qpnSlotBits
)

// ofEngine reports whether n is a number that a qpnTable can allocate: the queue pair belongs
// to a softroce engine, not to rxe.
func ofEngine(n uint32) bool {
	return n&engineBit != 0 && n < rocev2.ControlQPN
}

// isOutOfOrder reports whether n is a number for queue pairs in out-of-order mode. Engines that do not
// announce the mode use these numbers for all queue pairs.
func isOutOfOrder(n uint32) bool { return ofEngine(n) && n&oooBit != 0 }

// ShardOf returns the shard of a number, of an engine with that many shards, a power of two.
func ShardOf(n, shards uint32) uint32 { return n & qpnSlotMask / (maxQPNs / shards) }

// qpnTable maps the numbers of a shard that are in use to their owners. The zero value is empty, and that of an engine with
// one shard. It belongs to one goroutine.
type qpnTable[T any] struct {
	// Rand gives random numbers. nil: those of crypto/rand.
	Rand func() uint32

	// Shard is the number of the shard among Shards, a power of two up to maxQPNs. 0 shards count as 1.
	Shard, Shards uint32

	slots []qpnSlot[T] // maxQPNs / Shards, or none before the first number
	count int
}

// qpnSlot has the number that is in use, or the last one that was, and its owner, nil if none.
type qpnSlot[T any] struct {
	owner *T
	num   uint32
}

// Alloc allocates a number for x.
func (t *qpnTable[T]) Alloc(x *T) (uint32, error) { return t.alloc(x, 0) }

// Take gives x a number that the program has chosen. Its slot is its lowest 16 bits.
func (t *qpnTable[T]) Take(n uint32, x *T) error {
	t.init()
	s := &t.slots[n&t.mask()]
	if s.owner != nil {
		return verbs.ErrTooMany
	}
	*s = qpnSlot[T]{x, n}
	t.count++
	return nil
}

// init makes the slots.
func (t *qpnTable[T]) init() {
	if t.slots == nil {
		t.slots = make([]qpnSlot[T], maxQPNs/max(t.Shards, 1))
	}
}

// AllocOutOfOrder allocates a number for x that isOutOfOrder recognises.
func (t *qpnTable[T]) AllocOutOfOrder(x *T) (uint32, error) { return t.alloc(x, oooBit) }

func (t *qpnTable[T]) alloc(x *T, mode uint32) (uint32, error) {
	t.init()
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
func (t *qpnTable[T]) freeSlot() (i uint32) {
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
func (t *qpnTable[T]) mask() uint32 { return uint32(len(t.slots)) - 1 }

// number returns a number of slot i, of those of all shards, in a random generation: another one than the last. The highest numbers are
// rocev2.ControlQPN and the multicast QPN. mode is 0 or oooBit.
func (t *qpnTable[T]) number(last, i, mode uint32) uint32 {
	for {
		n := engineBit | mode | t.random()&genMask<<qpnSlotBits | i
		if n < rocev2.ControlQPN && n != last {
			return n
		}
	}
}

func (t *qpnTable[T]) random() uint32 {
	if t.Rand != nil {
		return t.Rand()
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.NativeEndian.Uint32(b[:])
}

// Free returns a number. A number that is not in use is left as it is.
func (t *qpnTable[T]) Free(n uint32) {
	if t.Lookup(n) != nil {
		t.slots[n&t.mask()].owner = nil
		t.count--
	}
}

// Lookup returns the owner of a number, or nil if it is not in use. It does not read the
// owner's memory.
func (t *qpnTable[T]) Lookup(n uint32) *T {
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
func (t *qpnTable[T]) Len() int { return t.count }

// All iterates over the owners in the order of their slots.
func (t *qpnTable[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range t.slots {
			if x := t.slots[i].owner; x != nil && !yield(x) {
				return
			}
		}
	}
}

// Slots is the number of slots, of which each has an entry or none.
func (t *qpnTable[T]) Slots() int { return len(t.slots) }

// At returns the entry of a slot, or nil: All in parts.
func (t *qpnTable[T]) At(slot int) *T { return t.slots[slot].owner }
