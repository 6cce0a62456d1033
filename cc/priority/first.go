// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"cmp"
	"math/bits"
	"slices"
)

// before says who of two is first in line for an odd unit. Only parts that are the
// same in everything that counts are equal.
func (p *part) before(x *part) int {
	if c := x.rest.compare(p.rest); c != 0 {
		return c
	}
	if c := cmp.Compare(p.id, x.id); c != 0 {
		return c
	}
	return cmp.Compare(x.weight, p.weight)
}

// first moves the n parts that are first in line to the front, in any order: Hoare's
// selection, in linear time. Where its pivots are bad for too long, it sorts.
func first(parts []part, n int) {
	for limit := 2 * bits.Len(uint(len(parts))); ; limit-- {
		if len(parts) <= 12 || limit == 0 {
			slices.SortFunc(parts, func(x, y part) int { return x.before(&y) })
			return
		}
		p := middle(&parts[0], &parts[len(parts)/2], &parts[len(parts)-1])
		i, j := 0, len(parts)-1
		for i <= j {
			for parts[i].before(&p) < 0 {
				i++
			}
			for parts[j].before(&p) > 0 {
				j--
			}
			if i <= j {
				parts[i], parts[j] = parts[j], parts[i]
				i, j = i+1, j-1
			}
		}
		// Up to j they are at most the pivot, from i on at least.
		switch {
		case n <= j+1:
			parts = parts[:j+1]
		case n > i:
			parts, n = parts[i:], n-i
		default:
			return
		}
	}
}

func middle(x, y, z *part) part {
	if x.before(y) > 0 {
		x, y = y, x
	}
	if y.before(z) > 0 {
		y = z
		if x.before(y) > 0 {
			y = x
		}
	}
	return *y
}
