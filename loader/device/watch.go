// SPDX-License-Identifier: Apache-2.0

package device

import "slices"

// Watched queues. A doorbell costs the process and the engine's thread two cache lines each that the
// other one has written last. So the engine's thread watches the queues of a process that were used last:
// it reads the producer's index of their rings, and says in ring.Watched that it does. The process rings
// no doorbell then.
//
// A process publishes entries first and reads Watched and the status page's Asleep then. The server clears
// Watched first and reads the producer's index then, and sets Asleep before it reads the indexes of watched
// rings. So an entry that the server did not see has its doorbell, or its signal.

const (
	// maxWatched is how many queues of a process are watched; the doorbell has the others.
	maxWatched = 8

	// reviewEvery is after how many iterations queues are no longer watched that had no entries.
	reviewEvery = 256
)

// watch begins to watch a queue, if there is room for one more.
func (r *rings) watch(q *queue) {
	if q.watched || q.ended || len(r.watched) == maxWatched {
		return
	}
	q.watched = true
	q.in.Watched().Store(1)
	r.watched = append(r.watched, q)
}

// unwatch ends it. Entries that the process has not rung the doorbell for are found.
func (r *rings) unwatch(q *queue) {
	if !q.watched {
		return
	}
	q.watched = false
	q.in.Watched().Store(0)
	r.watched = slices.DeleteFunc(r.watched, func(x *queue) bool { return x == q })
	if !q.ended && q.in.Changed() {
		r.found(q)
	}
}

// review ends the watch of queues that had no entries for some time. It is called in each iteration.
func (r *rings) review() {
	if len(r.watched) == 0 {
		return
	}
	if r.reviewed++; r.reviewed < reviewEvery {
		return
	}
	r.reviewed = 0
	for i := len(r.watched) - 1; i >= 0; i-- {
		q := r.watched[i]
		if !q.used {
			r.unwatch(q)
		}
		q.used = false
	}
}
