// SPDX-License-Identifier: Apache-2.0

// Package spans hands out ranges of numbers, such as addresses or elements of a table.
package spans

import "slices"

// Span is N numbers from From on.
type Span struct{ From, N uint64 }

func (s Span) end() uint64 { return s.From + s.N }

// List has the ranges that are free. The zero value has none. Its methods are for one goroutine.
type List struct {
	free []Span // free parts in order; no two are adjacent
}

// New returns a list in which n numbers from from on are free.
func New(from, n uint64) List { return List{[]Span{{from, n}}} }

// Take takes n numbers in a row from the first range that has room for them behind a multiple of
// align. It returns false if there is none.
func (l *List) Take(n, align uint64) (s Span, ok bool) {
	for i, f := range l.free {
		at := f.From
		if over := at % align; over != 0 {
			at += align - over
		}
		if skip := at - f.From; skip > f.N || f.N-skip < n {
			continue
		}
		rest := []Span{{f.From, at - f.From}, {at + n, f.end() - at - n}}
		rest = slices.DeleteFunc(rest, func(s Span) bool { return s.N == 0 })
		l.free = slices.Replace(l.free, i, i+1, rest...)
		return Span{at, n}, true
	}
	return Span{}, false
}

// Give returns a range, and joins it with its neighbours.
func (l *List) Give(s Span) {
	i, _ := slices.BinarySearchFunc(l.free, s.From, func(f Span, from uint64) int {
		if f.From < from {
			return -1
		}
		return 1
	})
	from, to := i, i
	if i > 0 && l.free[i-1].end() == s.From {
		from--
		s = Span{l.free[i-1].From, l.free[i-1].N + s.N}
	}
	if i < len(l.free) && s.end() == l.free[i].From {
		to++
		s.N += l.free[i].N
	}
	l.free = slices.Replace(l.free, from, to, s)
}

// Available is how many numbers are free.
func (l *List) Available() (n uint64) {
	for _, s := range l.free {
		n += s.N
	}
	return n
}

// Pieces is how many ranges they are in.
func (l *List) Pieces() int { return len(l.free) }
