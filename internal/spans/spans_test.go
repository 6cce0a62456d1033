// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"testing"

	"pgregory.net/rapid"
)

// Ranges never overlap, begin at multiples of their alignment and lie in the list, and when all
// are back the list is one range again.
func TestList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const from, n = 100, 200
		l := New(from, n)
		used := map[uint64]bool{}
		var taken []Span
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(taken) > 0 && rapid.Bool().Draw(t, "give") {
				i := rapid.IntRange(0, len(taken)-1).Draw(t, "which")
				s := taken[i]
				taken = append(taken[:i], taken[i+1:]...)
				for at := s.From; at < s.end(); at++ {
					delete(used, at)
				}
				l.Give(s)
			} else {
				size, align := rapid.Uint64Range(1, 40).Draw(t, "size"), rapid.Uint64Range(1, 16).Draw(t, "align")
				s, ok := l.Take(size, align)
				if fits := room(used, from, n, size, align); ok != fits {
					t.Fatalf("Take(%d, %d) %v, fits %v: %v", size, align, ok, fits, l.free)
				}
				if !ok {
					continue
				}
				if s.N != size || s.From%align != 0 || s.From < from || s.end() > from+n {
					t.Fatalf("Take(%d, %d) is %v", size, align, s)
				}
				for at := s.From; at < s.end(); at++ {
					if used[at] {
						t.Fatalf("%v overlaps: %v", s, taken)
					}
					used[at] = true
				}
				taken = append(taken, s)
			}
			if l.Available() != n-uint64(len(used)) {
				t.Fatalf("%d are free, want %d", l.Available(), n-len(used))
			}
		}
		for _, s := range taken {
			l.Give(s)
		}
		if l.Pieces() != 1 || l.free[0] != (Span{from, n}) {
			t.Fatalf("all are back: %v", l.free)
		}
	})
}

// room reports whether size numbers in a row from a multiple of align on are free.
func room(used map[uint64]bool, from, n, size, align uint64) bool {
	for at := (from + align - 1) / align * align; at+size <= from+n; at += align {
		free := true
		for i := at; i < at+size; i++ {
			free = free && !used[i]
		}
		if free {
			return true
		}
	}
	return false
}
