// SPDX-License-Identifier: Apache-2.0

package sim

// slab gives out zeroed values one by one from large pieces of memory.
type slab[T any] struct {
	rest []T
	size int // size of the last piece
}

const slabLeast, slabMost = 16, 4096

func (s *slab[T]) take() *T {
	if len(s.rest) == 0 {
		s.size = min(max(slabLeast, 2*s.size), slabMost)
		s.rest = hugeSlice[T](s.size)
	}
	x := &s.rest[0]
	s.rest = s.rest[1:]
	return x
}
