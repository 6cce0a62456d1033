// SPDX-License-Identifier: Apache-2.0

package ooo

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
)

// Notification says that a whole message is in memory (S3.3).
type Notification struct {
	QPN        uint32 // the local queue pair, and so the source
	Message    uint32 // id, unique among recent messages of the queue pair
	Descriptor uint64 // descriptor that the source passed to Post
	Length     uint32 // bytes
	Solicited  bool
}

// Queues manages the notification receive queues of a host. Queue pairs share them: a message
// names its queue by number.
type Queues struct {
	byNumber map[uint32]*Queue
}

// Queue is a notification receive queue.
type Queue struct {
	// Ready is called after a notification was put on the queue, or nil.
	Ready func(Notification)

	list fifo[Notification]
}

// MaxQueue is the most notifications that one queue holds.
const MaxQueue = 1 << 16

// Create makes the queue of this number, for at most size notifications.
func (s *Queues) Create(number uint32, size int) (*Queue, error) {
	if size < 1 || size > MaxQueue {
		return nil, fmt.Errorf("ooo: a notification receive queue for %d notifications: choose 1..%d", size, MaxQueue)
	}
	if s.byNumber[number] != nil {
		return nil, fmt.Errorf("ooo: notification receive queue %d exists: choose another number", number)
	}
	q := &Queue{}
	q.list.limit = size
	if s.byNumber == nil {
		s.byNumber = map[uint32]*Queue{}
	}
	s.byNumber[number] = q
	return q, nil
}

// Destroy removes the queue of this number, with what is on it. Later notifications for it are
// refused.
func (s *Queues) Destroy(number uint32) { delete(s.byNumber, number) }

// Poll removes the oldest notification.
func (q *Queue) Poll() (Notification, bool) {
	if q.list.n == 0 {
		return Notification{}, false
	}
	return q.list.pop(), true
}

// deliver hands a notification over, or returns why it cannot.
func (r *receiver) deliver(number uint32, n Notification) rocev2.ONakCode {
	if r.q.cfg.Deliver != nil {
		return r.q.cfg.Deliver(number, n)
	}
	return r.q.cfg.Queues.put(number, n)
}

// put appends a notification, or returns why it cannot.
func (s *Queues) put(number uint32, n Notification) rocev2.ONakCode {
	if s == nil || s.byNumber[number] == nil {
		return rocev2.ONakInvalidRequest
	}
	q := s.byNumber[number]
	if !q.list.push(n) {
		return rocev2.ONakNotReady
	}
	if q.Ready != nil {
		q.Ready(n)
	}
	return 0
}
