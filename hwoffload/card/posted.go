// SPDX-License-Identifier: Apache-2.0

package card

import "github.com/softroce/softroce-xdp/rocev2/verbs"

// sendQueue has the outstanding work requests of a queue pair. It is the completion queue that
// package qp sees: completions of the driver's work requests go on to the driver's queue, and
// those of the card itself (task queues) do not.
type sendQueue struct {
	cq   *completionQueue // completion queue of the driver
	sent []posted         // outstanding requests by number modulo its length, which is the most that are outstanding
	next uint64           // number of the next work request
}

// recvQueue is the completion queue of receives that package qp sees. Those of a task queue are the
// card's own, until the queue pair returns to RESET.
type recvQueue struct {
	cq    *completionQueue // completion queue of the driver
	tasks *taskQueue       // task queue, or nil
}

// Complete implements qp.CompletionQueue.
func (q *recvQueue) Complete(c verbs.Completion) {
	if q.tasks != nil {
		q.tasks.complete(c)
		return
	}
	q.cq.Complete(c)
}

// posted is an outstanding work request.
type posted struct {
	id    uint64
	ended func(id uint64, s verbs.Status) // callback of a request that the card itself has posted, else nil
	to    *handle                         // address handle, or nil
}

// post posts a work request. ended is nil for one of the driver.
func (x *queuePair) post(wr *verbs.SendWR, ended func(id uint64, s verbs.Status)) error {
	q, d := &x.send, x.d
	if x.q.SendUsed() >= len(q.sent) {
		return verbs.ErrQueueFull
	}
	p := &q.sent[q.next%uint64(len(q.sent))]
	to, _ := wr.AH.(*handle)
	if to != nil {
		to.uses++
	}
	d.net.endUse(p.to)
	*p = posted{wr.ID, ended, to}
	id := wr.ID
	wr.ID = q.next
	q.next++ // before PostSend, which completes it at once in ERR
	err := d.net.core.Send(&x.q, wr)
	if err != nil {
		q.next--
	}
	wr.ID = id
	return err
}

// Complete implements qp.CompletionQueue.
func (q *sendQueue) Complete(c verbs.Completion) {
	p := &q.sent[c.WRID%uint64(len(q.sent))]
	if c.WRID = p.id; p.ended != nil {
		p.ended(p.id, c.Status)
		return
	}
	q.cq.Complete(c)
}
