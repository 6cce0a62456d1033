// SPDX-License-Identifier: Apache-2.0

package device

import "testing"

// The number of a queue that has ended is free for the next one, which has nothing of what was pending.
func TestQueueNumbers(t *testing.T) {
	c, queues := &session{}, [3]*queue{{}, {}, {}}
	for i, q := range queues[:2] {
		if n, err := c.number(q); err != nil || n != uint32(i) {
			t.Fatalf("number %d, %v; want %d", n, err, i)
		}
	}
	c.pending[0] = 0b11
	c.receives, c.sends = []*queue{queues[0]}, []*queue{queues[1]}
	c.free(0, queues[0])
	if c.pending[0] != 0b10 || len(c.receives) != 0 || len(c.sends) != 1 {
		t.Errorf("pending %b, %d and %d queues have entries", c.pending[0], len(c.receives), len(c.sends))
	}
	if n, err := c.number(queues[2]); err != nil || n != 0 {
		t.Errorf("number %d, %v; want 0, which is free", n, err)
	}
	c.free(1, queues[2]) // not its own
	if c.queues[1] != queues[1] || c.pending[0] != 0b10 {
		t.Errorf("a queue has given back the number of another one: pending %b", c.pending[0])
	}
}
