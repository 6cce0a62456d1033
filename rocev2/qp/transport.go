// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Arrival is what an engine knows of a received packet besides its bytes.
type Arrival struct {
	Now        Time
	T1         uint64 // send time of the packet, if StampFlags has rocev2.StampT1
	StampFlags uint8
	Rail       uint8 // interface by which the packet has come, of several (package ooo)
	Exact      bool  // the packet may be forged (ReceiveExact)
}

// Deliver is Receive for an engine that has other transports too.
func (q *QP) Deliver(a Arrival, p rocev2.Packet) {
	if a.Exact {
		q.ReceiveExact(a.Now, &p)
		return
	}
	q.Receive(a.Now, &p)
}

// NextOn is NextData for an engine that has other transports too, which have packets of several rails.
func (q *QP) NextOn(now Time, _ int, out *Outbound) bool { return q.NextData(now, out) }

// What another transport needs of the queue pair whose packets it sends and receives: out-of-order
// mode (package ooo). State, attributes and receive queue are those of the QP; its requester and its
// responder stay idle.

// Access returns the rights that the queue pair gives to its peer.
func (q *QP) Access() verbs.Access { return q.attr.Access }

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
