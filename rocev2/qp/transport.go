// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2/verbs"

// What another transport needs of the queue pair whose packets it sends and receives: out-of-order
// mode (package ooo). State, attributes and receive queue are those of the QP; its requester and its
// responder stay idle.

// Established notes that a request of the peer has arrived. The first one is reported, as one that
// Receive takes.
func (q *QP) Established() {
	if !q.rsp.established {
		q.rsp.notifyEstablished()
	}
}

// CompleteRecv completes the next receive work request, of the SRQ or the own queue. c is the
// completion without WRID and QPN. It returns false if none is posted.
func (q *QP) CompleteRecv(c verbs.Completion) bool {
	r := &q.rsp
	if !r.takeReceive() {
		return false
	}
	r.buf.taken = false
	c.WRID, c.QPN = r.buf.id, q.cfg.QPN
	q.cfg.RecvCQ.Complete(c)
	return true
}
