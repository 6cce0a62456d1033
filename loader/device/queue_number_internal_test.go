// SPDX-License-Identifier: Apache-2.0

package device

import "testing"

// The number of a queue that has ended is free for the next one, which has nothing of what was pending.
func TestQueueNumbers(t *testing.T) {
	r, queues := &rings{}, [3]*queue{{}, {}, {}}
	for i, q := range queues[:2] {
		if n, err := r.number(q); err != nil || n != uint32(i) {
			t.Fatalf("number %d, %v; want %d", n, err, i)
		}
	}
	r.pending[0] = 0b11
	r.receives, r.sends = []*queue{queues[0]}, []*queue{queues[1]}
	r.free(0, queues[0])
	if r.pending[0] != 0b10 || len(r.receives) != 0 || len(r.sends) != 1 {
		t.Errorf("pending %b, %d and %d queues have entries", r.pending[0], len(r.receives), len(r.sends))
	}
	if n, err := r.number(queues[2]); err != nil || n != 0 {
		t.Errorf("number %d, %v; want 0, which is free", n, err)
	}
	r.free(1, queues[2]) // not its own
	if r.queues[1] != queues[1] || r.pending[0] != 0b10 {
		t.Errorf("a queue has given back the number of another one: pending %b", r.pending[0])
	}
}
