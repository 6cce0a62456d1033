// SPDX-License-Identifier: Apache-2.0

package sim

import "math/bits"

// bitring is a set of packet numbers from base on, which moves up with base. It
// holds as many as were ever needed at once.
type bitring struct {
	count int32
	base  uint32
	words []uint64 // a power of two of them
}

func (b *bitring) at(psn uint32) (*uint64, uint64) {
	return &b.words[psn>>6&uint32(len(b.words)-1)], 1 << (psn & 63)
}

func (b *bitring) has(psn uint32) bool {
	if psn < b.base || b.outside(psn) {
		return false
	}
	w, bit := b.at(psn)
	return *w&bit != 0
}

// outside says whether psn is beyond what the ring can hold now.
func (b *bitring) outside(psn uint32) bool { return int(psn>>6-b.base>>6) >= len(b.words) }

// add returns false if psn was in the set or is below base.
func (b *bitring) add(psn uint32) bool {
	if psn < b.base {
		return false
	}
	for b.outside(psn) {
		b.grow()
	}
	w, bit := b.at(psn)
	if *w&bit != 0 {
		return false
	}
	*w |= bit
	b.count++
	return true
}

func (b *bitring) grow() {
	old := *b
	b.words = make([]uint64, max(4, 2*len(old.words)))
	for i := range old.words {
		k := old.base>>6 + uint32(i)
		b.words[k&uint32(len(b.words)-1)] = old.words[k&uint32(len(old.words)-1)]
	}
}

// remove returns false if psn was not in the set.
func (b *bitring) remove(psn uint32) bool {
	if !b.has(psn) {
		return false
	}
	w, bit := b.at(psn)
	*w &^= bit
	b.count--
	return true
}

// advance moves base up and forgets what is below.
func (b *bitring) advance(base uint32) {
	for b.base < base {
		if b.count == 0 {
			b.base = base
			return
		}
		if b.base&63 == 0 && base-b.base >= 64 {
			w, _ := b.at(b.base)
			b.count -= int32(bits.OnesCount64(*w))
			*w = 0
			b.base += 64
			continue
		}
		b.remove(b.base)
		b.base++
	}
}

// first returns the lowest member; the set must not be empty.
func (b *bitring) first() uint32 {
	for k := b.base >> 6; ; k++ {
		if w := b.words[k&uint32(len(b.words)-1)]; w != 0 {
			return k<<6 + uint32(bits.TrailingZeros64(w))
		}
	}
}

// word returns the 64 members from psn on as bits, psn the lowest.
func (b *bitring) word(psn uint32) uint64 {
	var v uint64
	if b.count == 0 {
		return 0
	}
	for i := range uint32(2) {
		k := psn>>6 + i
		if k < b.base>>6 || int(k-b.base>>6) >= len(b.words) {
			continue
		}
		w := b.words[k&uint32(len(b.words)-1)]
		if i == 0 {
			v = w >> (psn & 63)
		} else if psn&63 != 0 {
			v |= w << (64 - psn&63)
		}
	}
	return v
}
