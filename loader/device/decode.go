// SPDX-License-Identifier: Apache-2.0

package device

import (
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// The entries of the rings of a process become work requests here. wqe has their layout; an entry is copied
// before it is checked, because the process can change it meanwhile.

// takeSend decodes a work request of a send queue and passes it to the queue pair.
func (q *queue) takeSend() {
	wr := &q.r.send
	ah, ok := wqe.DecodeSend(q.entry, q.qp.qp.Type(), wr)
	if ok && q.qp.qp.Type() == verbs.UD {
		if h, found := q.r.handles.Load(ah); found {
			wr.AH = h.(*nic.AH)
		}
	}
	if !ok || q.qp.qp.FeedSend(wr) != nil {
		q.bad(q.qp.qp.FeedBad(wr.ID, false))
	}
}

// takeRecv decodes a receive of a queue pair.
func (q *queue) takeRecv() {
	wr := &q.r.recv
	if !wqe.DecodeRecv(q.entry, wr) || q.qp.qp.FeedRecv(wr) != nil {
		q.bad(q.qp.qp.FeedBad(wr.ID, true))
	}
}

// findReceives passes receives of a ring to the engine while a message waits for one. An entry that is none, and an
// index that is not possible, stay for take: they end the queue pair, which must not happen in the midst of a packet.
// The packet is not at the process's expense, only the receives are.
func (q *queue) findReceives() {
	if q.ended || q.r.costs.suspendedUntil != 0 || q.in.Look() != nil {
		return
	}
	n := 0
	for wr := &q.r.recv; n < queueBudget && q.in.Left() > 0; n++ {
		q.in.Peek(q.entry)
		if !wqe.DecodeRecv(q.entry, wr) || q.feedRecv(wr) != nil {
			break
		}
		q.in.Skip()
	}
	q.r.costs.credit(n)
}

func (q *queue) feedRecv(wr *verbs.RecvWR) error {
	if q.srq != nil {
		return q.srq.srq.FeedRecv(wr)
	}
	return q.qp.qp.FeedRecv(wr)
}

// takeShared decodes a receive of a shared receive queue.
func (q *queue) takeShared() {
	wr := &q.r.recv
	if !wqe.DecodeRecv(q.entry, wr) || q.srq.srq.FeedRecv(wr) != nil {
		q.srq.srq.FeedBad()
		q.bad(0)
	}
}
