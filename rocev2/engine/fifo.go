// SPDX-License-Identifier: Apache-2.0

package engine

// Two queues choose what is sent next.
//
//   - fifo is the queue of destinations that are in service, first in, first out.
//   - drrQueue is the queue of one destination's queue pairs, by deficit round robin
//     (Shreedhar and Varghese, 1995): each may send a quantum of bytes in a row while
//     others wait, and what it has sent too much is deducted from its next quantum.
//
// The deficit may become negative by one packet: a packet's length is known only after it
// was taken from its queue pair.
//
// Both are linked lists whose links belong to what waits, which embeds them (fifoLink, drrFlow).
// So nothing allocates, and to enqueue costs the same however many wait. A fifoLink or drrFlow is
// in one list at a time.

// fifoLink is one place in a fifo. Its zero value is in none.
type fifoLink[T any] struct {
	owner T
	next  *fifoLink[T]
}

// fifo is a queue, first in, first out. Its zero value is empty.
type fifo[T any] struct{ first, last *fifoLink[T] }

// Empty reports that nothing is in the list.
func (l *fifo[T]) Empty() bool { return l.first == nil }

// Push appends x. Its link n is in no list.
func (l *fifo[T]) Push(n *fifoLink[T], x T) {
	if *n = (fifoLink[T]{owner: x}); l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
}

// Pop removes and returns the first. The list must not be empty.
func (l *fifo[T]) Pop() T {
	n := l.first
	if l.first = n.next; l.first == nil {
		l.last = nil
	}
	x := n.owner
	*n = fifoLink[T]{}
	return x
}

// All calls yield with what is in the list, the first first, until yield returns false.
func (l *fifo[T]) All(yield func(T) bool) {
	for n := l.first; n != nil && yield(n.owner); n = n.next {
	}
}
