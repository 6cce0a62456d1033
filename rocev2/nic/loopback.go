// SPDX-License-Identifier: Apache-2.0

package nic

// Packets to an address of the engine's own interface do not leave it: no switch
// sends a frame back to where it came from. They wait here, in order, until
// receive takes them.

// ownLimit is how many packets may wait; their memory is made when first needed.
const ownLimit = 128

type ownQueue struct {
	slots       [ownLimit][]byte
	lens        [ownLimit]int
	head, count int
	maxFrame    int
}

// frame lends the memory for one packet; nil if too many wait.
func (q *ownQueue) frame() []byte {
	if q.count == ownLimit {
		return nil
	}
	slot := &q.slots[(q.head+q.count)%ownLimit]
	if *slot == nil {
		*slot = make([]byte, q.maxFrame)
	}
	return *slot
}

// push makes the first n bytes of the lent memory a packet.
func (q *ownQueue) push(n int) {
	q.lens[(q.head+q.count)%ownLimit] = n
	q.count++
}

// receiveOwn handles the packets that wait now; those that it causes come next time.
func (e *engine) receiveOwn() int {
	q := &e.own
	n := q.count
	if n > 0 {
		e.takePosts()
	}
	for range n {
		i := q.head
		e.frame(q.slots[i][:q.lens[i]], rxMeta{}, true)
		q.head = (q.head + 1) % ownLimit
		q.count--
	}
	return n
}
