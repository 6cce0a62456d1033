// SPDX-License-Identifier: Apache-2.0

package qp

import "math/bits"

// bitmap is a set of 128 bits.
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

// first returns the lowest bit that is set, 128 if none is.
func (b bitmap) first() int {
	if b.lo != 0 {
		return bits.TrailingZeros64(b.lo)
	}
	return 64 + bits.TrailingZeros64(b.hi)
}

// len returns one more than the highest bit that is set.
func (b bitmap) len() int {
	if b.hi != 0 {
		return 64 + bits.Len64(b.hi)
	}
	return bits.Len64(b.lo)
}

// shift drops the lowest n bits and moves the others down.
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

func (b bitmap) not() bitmap { return bitmap{^b.lo, ^b.hi} }

func (b bitmap) or(c bitmap) bitmap { return bitmap{b.lo | c.lo, b.hi | c.hi} }
