// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	minSlotBits     = 8
	maxSlotBits     = 20 // leaves 4 random bits above the consumer's 8
	defaultSlotBits = 16
)

// consumerBits is the part of a window's key that a bind may choose.
const consumerBits = 8

// keys hands out slots and the keys on them. The table's lock guards it.
type keys struct {
	shift uint     // a key's slot is key >> shift
	free  []uint32 // slots, in no order
	last  []uint32 // the latest key on each slot
}

// newKeys has no slots to hand out if the caller chooses keys.
func newKeys(slotBits uint, chosen bool) keys {
	if chosen {
		return keys{shift: 32 - slotBits}
	}
	k := keys{
		shift: 32 - slotBits,
		free:  make([]uint32, 1<<slotBits),
		last:  make([]uint32, 1<<slotBits),
	}
	for i := range k.free {
		k.free[i] = uint32(i)
	}
	return k
}

// take returns a random free slot; false if there is none.
func (k *keys) take() (slot uint32, ok bool) {
	n := len(k.free)
	if n == 0 {
		return 0, false
	}
	i := uint64(random32()) * uint64(n) >> 32
	slot = k.free[i]
	k.free[i] = k.free[n-1]
	k.free = k.free[:n-1]
	return slot, true
}

// give takes a slot back.
func (k *keys) give(slot uint32) { k.free = append(k.free, slot) }

// takeKey returns a slot and a key on it: a fresh one, or the chosen one. The table's lock
// must be held.
func (t *Table) takeKey(chosen uint32) (slot, key uint32, err error) {
	switch {
	case t.chosen:
		slot = chosen >> t.shift
		switch {
		case chosen>>consumerBits == 0:
			return 0, 0, fmt.Errorf("%w: the key %#x: choose one above 0xff", verbs.ErrNoKey, chosen)
		case t.slots[slot].Load() != nil:
			return 0, 0, fmt.Errorf("%w: slot %d of the key %#x is taken", verbs.ErrNoKey, slot, chosen)
		}
		return slot, chosen, nil
	case chosen != 0:
		return 0, 0, fmt.Errorf("%w: this table draws the keys: do not choose %#x", verbs.ErrNoKey, chosen)
	}
	slot, ok := t.keys.take()
	if !ok {
		return 0, 0, fmt.Errorf("%w: all %d are taken", verbs.ErrNoKey, len(t.slots))
	}
	return slot, t.keys.next(slot), nil
}

// giveKey takes a slot back.
func (t *Table) giveKey(slot uint32) {
	if !t.chosen {
		t.keys.give(slot)
	}
}

// next draws a key for the slot that differs from the latest one there in more
// than the consumer's bits, and is none of 0..255: applications take 0 for "no key".
func (k *keys) next(slot uint32) uint32 {
	for {
		key := slot<<k.shift | random32()&(1<<k.shift-1)
		if key>>consumerBits != k.last[slot]>>consumerBits && key>>consumerBits != 0 {
			k.last[slot] = key
			return key
		}
	}
}

func random32() uint32 {
	var b [4]byte
	rand.Read(b[:]) // never fails: it ends the process instead
	return binary.NativeEndian.Uint32(b[:])
}
