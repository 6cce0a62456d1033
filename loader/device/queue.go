// SPDX-License-Identifier: Apache-2.0

package device

import (
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// queue is a ring of work requests, which the engine's thread takes.
type queue struct {
	r       *rings
	in      *ring.Consumer
	entry   []byte // copy of the entry that is decoded
	qp      *queuePair
	srq     *sharedQueue // owner of a shared receive queue; qp is nil then
	recv    bool
	number  uint32 // number in the doorbell
	ended   bool   // nothing is taken: it was destroyed, or its ring is damaged
	watched bool   // the queue is in rings.watched
	used    bool   // the queue had entries since the last review
}

func newQueue(r *rings, memory ring.Ring, s ring.Shape) *queue {
	return &queue{r: r, in: ring.NewConsumer(memory), entry: make([]byte, s.EntryBytes)}
}

// pending reports whether the queue is in rings.receives or rings.sends.
func (q *queue) pending() bool { return q.r.pending[q.number/64]&(1<<(q.number%64)) != 0 }

// look finds out how many entries there are. take takes no others.
func (q *queue) look() {
	if !q.ended && q.in.Look() != nil {
		q.damaged()
	}
}

// take passes up to budget work requests to the engine, of those that look has found. more: others of
// these wait.
func (q *queue) take(budget int) (n int, more bool) {
	for ; n < budget; n++ {
		if q.ended || q.in.Left() == 0 {
			return n, false
		}
		q.in.Copy(q.entry)
		switch {
		case q.srq != nil:
			q.takeShared()
		case q.recv:
			q.takeRecv()
		default:
			q.takeSend()
		}
	}
	return n, !q.ended && q.in.Left() > 0
}

// bad counts an entry that is no work request, which has no credit, and has flushed others.
func (q *queue) bad(flushed int) {
	q.r.feeder.flushed += flushed
	q.r.costs.credit(-1)
}

// damaged ends a ring whose index is not possible.
func (q *queue) damaged() {
	q.ended = true
	q.r.unwatch(q)
	q.r.socket.warn("a process wrote an impossible index to its ring")
	if q.qp != nil {
		q.r.feeder.flushed += q.qp.qp.Fail()
	}
}

// queuePair is a queue pair of a process. It implements nic.QueueView.
type queuePair struct {
	qp      *nic.QP
	memory  *ringMemory
	halves  []*queue // send, and receive unless it has a shared receive queue
	numbers []uint32 // numbers in the doorbell
	ended   bool
	cost    []limits.Use
}

// Show implements nic.QueueView.
func (q *queuePair) Show(s verbs.State, sendDone, recvDone uint32) {
	if q.ended {
		return
	}
	q.halves[0].in.Free(sendDone)
	if len(q.halves) > 1 {
		q.halves[1].in.Free(recvDone)
	}
	if w := q.halves[0].in.State(); w.Load() != uint32(s) {
		w.Store(uint32(s))
	}
}

// FindReceives implements nic.QueueView.
func (q *queuePair) FindReceives() {
	if len(q.halves) > 1 {
		q.halves[1].findReceives()
	}
}

// sharedQueue is a shared receive queue of a process. It implements nic.QueueView.
type sharedQueue struct {
	srq    *nic.SRQ
	memory *ringMemory
	recv   *queue
	number uint32
	ended  bool
	cost   []limits.Use
}

// Show implements nic.QueueView.
func (q *sharedQueue) Show(_ verbs.State, _, recvDone uint32) {
	if !q.ended {
		q.recv.in.Free(recvDone)
	}
}

// FindReceives implements nic.QueueView.
func (q *sharedQueue) FindReceives() { q.recv.findReceives() }

// completionQueue is a completion queue of a process. It implements nic.CQSink.
type completionQueue struct {
	r      *rings
	cq     *nic.CQ
	memory *ringMemory
	ended  bool
	cost   []limits.Use

	completions *ring.Completions // the ring
	out         *ring.CompletionProducer
}

// Put implements nic.CQSink.
func (q *completionQueue) Put(w verbs.Completion) {
	if !q.ended {
		wqe.EncodeCompletion(q.out.Next(), &w)
	}
}

// Publish implements nic.CQSink. A damaged index is an overrun.
func (q *completionQueue) Publish(alert bool) bool {
	if q.ended {
		return true
	}
	signal, ok := q.out.Publish(alert)
	if signal {
		q.r.notify()
	}
	return ok
}
