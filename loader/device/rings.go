// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// rings are what the engine's thread takes from a process and writes to it. Only that thread uses them, but for handles,
// and for what is set before feeder.join.
type rings struct {
	feeder  *feeder
	socket  *socket
	handles sync.Map // address handles: uint32 to *nic.AH

	doorbell     ring.Doorbell
	wake, signal int // eventfd for the engine's thread; socket to the process

	costs    engineCosts
	queues   []*queue                 // queues by the number that the doorbell has for them
	pending  [ring.Queues / 64]uint64 // bits of those in receives and sends
	receives []*queue                 // receive queues with entries that were not taken
	sends    []*queue                 // send queues with entries that were not taken
	watched  []*queue                 // queues whose process rings no doorbell (watch.go)
	reviewed uint32                   // iterations since the last review
	send     verbs.SendWR
	recv     verbs.RecvWR
}

func newRings(k *socket) *rings { return &rings{feeder: k.s.feeder, socket: k, wake: -1, signal: -1} }

// number returns a free number of the doorbell for a queue.
func (r *rings) number(q *queue) (uint32, error) {
	for i, used := range r.queues {
		if used == nil {
			r.queues[i] = q
			return uint32(i), nil
		}
	}
	if len(r.queues) == ring.Queues {
		return 0, fmt.Errorf("%w: a process has %d send and receive queues", verbs.ErrTooMany, ring.Queues)
	}
	r.queues = append(r.queues, q)
	return uint32(len(r.queues) - 1), nil
}

// free gives the number of a queue back.
func (r *rings) free(number uint32, q *queue) {
	if int(number) >= len(r.queues) || r.queues[number] != q {
		return
	}
	r.queues[number] = nil
	if bit := uint64(1) << (number % 64); r.pending[number/64]&bit != 0 { // the next queue has the number
		r.pending[number/64] &^= bit
		r.receives = slices.DeleteFunc(r.receives, func(x *queue) bool { return x == q })
		r.sends = slices.DeleteFunc(r.sends, func(x *queue) bool { return x == q })
	}
}

// enlist gives the queues of a queue pair their numbers.
func (r *rings) enlist(q *queuePair) error {
	for _, half := range q.halves {
		n, err := r.number(half)
		if err != nil {
			return err
		}
		q.numbers = append(q.numbers, n)
	}
	return nil
}

// settle takes once what the process has posted, unless the process is suspended. more: entries wait. wait is the time
// until the end of the suspension.
func (r *rings) settle() (more bool, wait time.Duration) {
	f := r.feeder
	if r.costs.suspendedUntil == 0 {
		r.take()
		f.count(r)
	}
	if until := r.costs.suspendedUntil; until != 0 {
		wait = until - f.now()
	}
	return r.waiting(), wait
}
