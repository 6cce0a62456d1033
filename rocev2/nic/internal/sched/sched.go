// SPDX-License-Identifier: Apache-2.0

// Package sched decides what an engine sends next, and when: two queues, a timing wheel (wheel.go) and the
// token bucket of a destination (bucket.go).
//
// The two queues choose what is sent next.
//
//   - List is the queue of destinations that are in service, first in, first out.
//   - Queue is the queue of one destination's queue pairs, by deficit round robin
//     (Shreedhar and Varghese, 1995): each may send a quantum of bytes in a row while
//     others wait, and what it has sent too much is deducted from its next quantum.
//
// The deficit may become negative by one packet: a packet's length is known only after it
// was taken from its queue pair.
//
// Both are linked lists whose links belong to what waits, which embeds them (Link, Flow).
// So nothing allocates, and to enqueue costs the same however many wait. A Link or Flow is
// in one list at a time. A list and what is in it belong to one goroutine.
package sched

// Link is one place in a List. Its zero value is in none.
type Link[T any] struct {
	owner T
	next  *Link[T]
}

// List is a queue, first in, first out. Its zero value is empty.
type List[T any] struct{ first, last *Link[T] }

// Empty reports that nothing is in the list.
func (l *List[T]) Empty() bool { return l.first == nil }

// Push appends x. Its link n is in no list.
func (l *List[T]) Push(n *Link[T], x T) {
	if *n = (Link[T]{owner: x}); l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
}

// Pop removes and returns the first. The list must not be empty.
func (l *List[T]) Pop() T {
	n := l.first
	if l.first = n.next; l.first == nil {
		l.last = nil
	}
	x := n.owner
	*n = Link[T]{}
	return x
}

// All calls yield with what is in the list, the first first, until yield returns false.
func (l *List[T]) All(yield func(T) bool) {
	for n := l.first; n != nil && yield(n.owner); n = n.next {
	}
}
