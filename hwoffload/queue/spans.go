// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"slices"
)

// spans hands out ranges of numbers: DDR addresses, or elements of a table.
type spans struct {
	what string // for errors
	free []span // in order, never adjacent
}

type span struct{ from, n uint64 }

func newSpans(what string, from, n uint64) spans { return spans{what, []span{{from, n}}} }

// take returns the first range of n numbers that begins at a multiple of align.
func (s *spans) take(n, align uint64) (uint64, error) {
	for i, f := range s.free {
		at := (f.from + align - 1) / align * align
		skip := at - f.from
		if skip > f.n || f.n-skip < n {
			continue
		}
		parts := []span{{f.from, skip}, {at + n, f.n - skip - n}}
		parts = slices.DeleteFunc(parts, func(p span) bool { return p.n == 0 })
		s.free = slices.Replace(s.free, i, i+1, parts...)
		return at, nil
	}
	return 0, fmt.Errorf("card: no %d %s in a row are free", n, s.what)
}

// give takes a range back.
func (s *spans) give(from, n uint64) {
	i, _ := slices.BinarySearchFunc(s.free, from, func(f span, from uint64) int {
		if f.from < from {
			return -1
		}
		return 1
	})
	s.free = slices.Insert(s.free, i, span{from, n})
	if i+1 < len(s.free) && from+n == s.free[i+1].from {
		s.free[i].n += s.free[i+1].n
		s.free = slices.Delete(s.free, i+1, i+2)
	}
	if i > 0 && s.free[i-1].from+s.free[i-1].n == from {
		s.free[i-1].n += s.free[i].n
		s.free = slices.Delete(s.free, i, i+1)
	}
}
