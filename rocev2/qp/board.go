// SPDX-License-Identifier: Apache-2.0

package qp

import "math/bits"

// bitmap is 128 bits.
type bitmap struct{ lo, hi uint64 }

func (b bitmap) has(i int) bool {
	if i >= 64 {
		return i < 128 && b.hi>>(i-64)&1 != 0
	}
	return b.lo>>i&1 != 0
}

func (b *bitmap) set(i int) {
	if i >= 64 {
		b.hi |= 1 << (i - 64)
	} else {
		b.lo |= 1 << i
	}
}

func (b *bitmap) clear(i int) {
	if i >= 64 {
		b.hi &^= 1 << (i - 64)
	} else {
		b.lo &^= 1 << i
	}
}

// first is the lowest bit that is set, 128 if none is.
func (b bitmap) first() int {
	if b.lo != 0 {
		return bits.TrailingZeros64(b.lo)
	}
	return 64 + bits.TrailingZeros64(b.hi)
}

// len is one more than the highest bit that is set.
func (b bitmap) len() int {
	if b.hi != 0 {
		return 64 + bits.Len64(b.hi)
	}
	return bits.Len64(b.lo)
}

// shift drops the lowest n bits.
func (b bitmap) shift(n uint64) bitmap {
	switch {
	case n >= 128:
		return bitmap{}
	case n >= 64:
		return bitmap{lo: b.hi >> (n - 64)}
	case n == 0:
		return b
	}
	return bitmap{lo: b.lo>>n | b.hi<<(64-n), hi: b.hi >> n}
}

// below keeps the lowest n bits.
func (b bitmap) below(n int) bitmap {
	switch {
	case n <= 0:
		return bitmap{}
	case n >= 128:
		return b
	case n >= 64:
		return bitmap{b.lo, b.hi & (1<<(n-64) - 1)}
	}
	return bitmap{lo: b.lo & (1<<n - 1)}
}

func (b bitmap) and(c bitmap) bitmap { return bitmap{b.lo & c.lo, b.hi & c.hi} }
func (b bitmap) not() bitmap         { return bitmap{^b.lo, ^b.hi} }
func (b bitmap) or(c bitmap) bitmap  { return bitmap{b.lo | c.lo, b.hi | c.hi} }

// board says what became of the packets beyond taken, bit 0 being taken itself.
type board struct {
	base  uint64 // taken
	there bitmap // the peer keeps it
	lost  bitmap // to be sent again
	again bitmap // was sent again

	// For those that were: the how manieth packet sent again it was, and how far the
	// stream was then. Whatever left later and has arrived shows how long it is gone.
	order  uint32
	latest uint32 // of those that arrived
	sent   [holdable]struct {
		order uint32
		max   uint64
	}
}

// open reports that there is, or may be, a hole.
func (b *board) open() bool { return b.there.or(b.lost).or(b.again) != bitmap{} }

func (b *board) has(n uint64) bool { return n-b.base < holdable && b.there.has(int(n-b.base)) }

// sentAgain notes that packet n leaves once more, when max were sent once.
func (b *board) sentAgain(n, max uint64) {
	if n-b.base >= holdable {
		return
	}
	i := int(n - b.base)
	b.again.set(i)
	b.lost.clear(i)
	b.order++
	b.sent[n%holdable].order, b.sent[n%holdable].max = b.order, max
}

// arrived notes packets that the peer has.
func (b *board) arrived(which bitmap) {
	for f := which.and(b.again); f != (bitmap{}); {
		i := f.first()
		f.clear(i)
		b.latest = max(b.latest, b.sent[(b.base+uint64(i))%holdable].order)
	}
}

// advance moves the board to a new taken.
func (b *board) advance(taken uint64) {
	n := taken - b.base
	b.arrived(bitmap{^uint64(0), ^uint64(0)}.below(int(min(n, holdable))))
	b.base = taken
	b.there, b.lost, b.again = b.there.shift(n), b.lost.shift(n), b.again.shift(n)
}

// judge marks what is lost: packets that at least slack later ones have overtaken,
// counted in the order in which they were sent.
func (b *board) judge(slack int) {
	top := b.there.len()
	gone := b.there.not().and(b.lost.not()).below(top - slack)
	for f := gone.and(b.again); f != (bitmap{}); {
		i := f.first()
		f.clear(i)
		s := &b.sent[(b.base+uint64(i))%holdable]
		later := int(int32(b.latest - s.order))
		if beyond := int64(b.base) + int64(top) - int64(s.max); beyond > 0 {
			later = max(later, 0) + int(beyond)
		}
		if later < slack {
			gone.clear(i)
		}
	}
	b.lost = b.lost.or(gone)
}
