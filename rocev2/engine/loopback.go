// SPDX-License-Identifier: Apache-2.0

package engine

// Loopback: packets to an address of the engine's own interface do not leave it, as no switch
// sends a frame back to where it came from. They wait here, in order, until ReceiveLoopback takes
// them.

// loopbackLimit is how many packets may wait; their memory is allocated when first needed.
const loopbackLimit = 128

// loopbackQueue is a ring of packets that the engine sends to itself.
type loopbackQueue struct {
	slots       [loopbackLimit][]byte
	lens        [loopbackLimit]int
	head, count int
	maxFrame    int
	rounds      int // rounds of shortLoopback
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
