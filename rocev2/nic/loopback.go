// SPDX-License-Identifier: Apache-2.0

package nic

// Loopback: packets to an address of the engine's own interface do not leave it, as no switch
// sends a frame back to where it came from. They wait here, in order, until receive takes
// them.

// loopbackLimit is how many packets may wait; their memory is allocated when first needed.
const loopbackLimit = 128

// loopbackQueue is a ring of packets.
type loopbackQueue struct {
	slots       [loopbackLimit][]byte
	lens        [loopbackLimit]int
	head, count int
	maxFrame    int
}

// frame returns the memory for one packet; nil if too many wait.
func (q *loopbackQueue) frame() []byte {
	if q.count == loopbackLimit {
		return nil
	}
	slot := &q.slots[(q.head+q.count)%loopbackLimit]
	if *slot == nil {
		*slot = make([]byte, q.maxFrame)
	}
	return *slot
}

// push queues the first n bytes of what frame returned as a packet.
func (q *loopbackQueue) push(n int) {
	q.lens[(q.head+q.count)%loopbackLimit] = n
	q.count++
}

// receiveLoopback handles the packets that are queued now, not those that it causes.
func (e *engine) receiveLoopback() int {
	q := &e.loopback
	n := q.count
	if n > 0 {
		e.takePosts()
	}
	for range n {
		i := q.head
		e.frame(q.slots[i][:q.lens[i]], rxMeta{}, true)
		q.head = (q.head + 1) % loopbackLimit
		q.count--
	}
	return n
}
