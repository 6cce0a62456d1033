// SPDX-License-Identifier: Apache-2.0

package ooo

// fifo is a bounded queue. Its memory grows with use, up to the limit.
type fifo[T any] struct {
	buf   []T
	head  int
	n     int
	limit int
}

// push appends v, or returns false if limit elements are queued.
func (f *fifo[T]) push(v T) bool {
	if f.n == f.limit {
		return false
	}
	if f.n == len(f.buf) {
		larger := make([]T, min(max(8, 2*len(f.buf)), f.limit))
		for i := range f.n {
			larger[i] = *f.at(i)
		}
		f.buf, f.head = larger, 0
	}
	f.buf[(f.head+f.n)%len(f.buf)] = v
	f.n++
	return true
}

// pop removes the oldest element; f must not be empty.
func (f *fifo[T]) pop() T {
	v := *f.at(0)
	f.head = (f.head + 1) % len(f.buf)
	f.n--
	return v
}

// at returns element i, the oldest being 0.
func (f *fifo[T]) at(i int) *T { return &f.buf[(f.head+i)%len(f.buf)] }
