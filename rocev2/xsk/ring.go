// SPDX-License-Identifier: Apache-2.0

package xsk

import "sync/atomic"

// The rings hold power-of-two many entries between two indices that only ever grow
// (modulo 2^32): the producer stores entries and then its index, the consumer loads
// that index and then entries. sync/atomic gives the order that this needs (more
// than the kernel's release and acquire).

// shared is what both sides of a ring see.
type shared[T any] struct {
	prod, cons, flags *atomic.Uint32
	entries           []T
}

// producer is our side of the fill and the tx ring. put and publish are for one
// goroutine.
type producer[T any] struct {
	shared[T]
	next uint32 // index of the next entry; what is before, down to *prod, is not published
	seen uint32 // *cons as loaded last
}

// free returns how many entries can be put, at least want if there are that many.
func (r *producer[T]) free(want uint32) uint32 {
	size := uint32(len(r.entries))
	n := size - (r.next - r.seen)
	if n < want {
		r.seen = r.cons.Load()
		n = size - (r.next - r.seen)
	}
	return n
}

// put stores an entry. There must be room.
func (r *producer[T]) put(v T) {
	r.entries[r.next&uint32(len(r.entries)-1)] = v
	r.next++
}

// publish shows the kernel what was put.
func (r *producer[T]) publish() { r.prod.Store(r.next) }

// pending returns how many published entries the kernel has not consumed. Any
// goroutine may call it.
func (r *producer[T]) pending() uint32 {
	cons := r.cons.Load() // first, so that the difference cannot be negative
	return r.prod.Load() - cons
}

// consumer is our side of the rx and the completion ring, for one goroutine.
type consumer[T any] struct {
	shared[T]
	next uint32 // index of the next entry to read
	seen uint32 // *prod as loaded last
}

// available returns how many entries can be read, at least want if there are.
func (r *consumer[T]) available(want uint32) uint32 {
	n := r.seen - r.next
	if n < want {
		r.seen = r.prod.Load()
		n = r.seen - r.next
	}
	return n
}

// at returns the i-th available entry.
func (r *consumer[T]) at(i uint32) T {
	return r.entries[(r.next+i)&uint32(len(r.entries)-1)]
}

// release gives the first n entries back to the kernel.
func (r *consumer[T]) release(n uint32) {
	r.next += n
	r.cons.Store(r.next)
}
