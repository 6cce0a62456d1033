// SPDX-License-Identifier: Apache-2.0

package engine

// drrFlow is one queue pair's place in a drrQueue. Its zero value is in none.
type drrFlow[T any] struct {
	owner   T
	next    *drrFlow[T]
	deficit int32 // bytes that it may send in a row while others wait
	queued  bool
}

// Queued reports that the flow is in a queue.
func (f *drrFlow[T]) Queued() bool { return f.queued }

// drrQueue serves flows by deficit round robin. Its zero value is empty.
type drrQueue[T any] struct{ first, last *drrFlow[T] }

// Empty reports that no flow is in the queue.
func (q *drrQueue[T]) Empty() bool { return q.first == nil }

// First returns the queue pair that is in service, or the zero value if the queue is
// empty.
func (q *drrQueue[T]) First() (x T) {
	if q.first != nil {
		x = q.first.owner
	}
	return x
}

// Others reports that flows wait behind the first one.
func (q *drrQueue[T]) Others() bool { return q.first != q.last }

// Enqueue appends x with a new quantum of bytes. Its flow f is in no queue.
func (q *drrQueue[T]) Enqueue(f *drrFlow[T], x T, quantum int32) {
	*f = drrFlow[T]{owner: x, deficit: quantum, queued: true}
	if q.last == nil {
		q.first = f
	} else {
		q.last.next = f
	}
	q.last = f
}

// Dequeue removes the first flow, which ends its service. The queue must not be empty.
func (q *drrQueue[T]) Dequeue() {
	f := q.first
	if q.first = f.next; q.first == nil {
		q.last = nil
	}
	*f = drrFlow[T]{}
}

// Remove removes a flow of this queue wherever it is. The queue is searched for it.
func (q *drrQueue[T]) Remove(f *drrFlow[T]) {
	if q.first == f {
		q.Dequeue()
		return
	}
	before := q.first
	for before.next != f {
		before = before.next
	}
	if before.next = f.next; q.last == f {
		q.last = before
	}
	*f = drrFlow[T]{}
}

// Remaining returns how many bytes the first flow may still send in a row. Zero or less:
// its service ends if anybody waits.
func (q *drrQueue[T]) Remaining() int32 { return q.first.deficit }

// Charge deducts n bytes that the first flow has sent, and returns what remains. What it has sent
// without a quantum while nobody waited is not deducted: only the last packet is.
func (q *drrQueue[T]) Charge(n int32) (remaining int32) {
	q.first.deficit = max(q.first.deficit-n, -n)
	return q.first.deficit
}

// Rotate moves the first flow to the end with another quantum. What it has sent too much
// is deducted.
func (q *drrQueue[T]) Rotate(quantum int32) {
	f := q.first
	x, left := f.owner, f.deficit
	q.Dequeue()
	q.Enqueue(f, x, quantum+left)
}
