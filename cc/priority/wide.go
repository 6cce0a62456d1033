// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"cmp"
	"math/bits"
)

// wide is a number of 128 bits: sums of rates of any size do not overflow it.
type wide struct{ hi, lo uint64 }

func (w *wide) add(x uint64) {
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, x, 0)
	w.hi += carry
}

func (w wide) above(x uint64) bool { return w.hi != 0 || w.lo > x }

func (w wide) compare(x wide) int {
	if w.hi != x.hi {
		return cmp.Compare(w.hi, x.hi)
	}
	return cmp.Compare(w.lo, x.lo)
}

func (w wide) minus(x wide) wide {
	lo, borrow := bits.Sub64(w.lo, x.lo, 0)
	return wide{w.hi - x.hi - borrow, lo}
}

// times is the low half of the product with a word.
func (w wide) times(x uint64) wide {
	hi, lo := bits.Mul64(w.lo, x)
	return wide{hi + w.hi*x, lo}
}

// mulDiv is a*b/d, rounded down, and the rest. a must be below d, so that the
// quotient fits a word.
func mulDiv(a, b uint64, d wide) (uint64, wide) {
	hi, lo := bits.Mul64(a, b)
	if d.hi == 0 {
		q, r := bits.Div64(hi, lo, d.lo)
		return q, wide{0, r}
	}
	// Knuth's algorithm D with one digit of 64 bits: the estimate from the divisor's
	// top 64 bits is never too small, once it is lowered by one at most one too small
	// (Hacker's Delight, 9-5).
	n := wide{hi, lo}
	shift := bits.LeadingZeros64(d.hi)
	top := d.hi<<shift | d.lo>>(64-shift)
	q, _ := bits.Div64(hi>>1, hi<<63|lo>>1, top)
	q >>= 63 - shift
	if q > 0 {
		q--
	}
	r := n.minus(d.times(q))
	for r.compare(d) >= 0 {
		q++
		r = r.minus(d)
	}
	return q, r
}
