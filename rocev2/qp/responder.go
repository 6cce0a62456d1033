// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// responder is the receive queue and the execution of the peer's requests.
type responder struct {
	q         *QP
	readFirst bool // NextData calls nextRead first

	established bool // EventQPEstablished was reported
	dropping    bool // UC: packets are dropped until the next message begins

	expected rocev2.PSN
	msn      uint32 // messages completed, 24 bits
	pmtu     int
	reorder  *reorderBuffer // out-of-order packets, or nil
	ack      ackState
	res      resources
	message  message

	ring recvRing
	buf  recvBuffer
}

// start applies the attributes of INIT to RTR.
func (r *responder) start() {
	r.expected = r.q.attr.RQPSN
	r.pmtu = r.q.attr.PMTU.Bytes()
	r.ack = ackState{acked: r.expected.Add(-1)}
}

// reset discards everything, without completions.
func (r *responder) reset() {
	r.dropBuffered()
	*r = responder{q: r.q, ring: newRecvRing(r.q.cfg.MaxRecv, r.q.cfg.MaxRecvSGE)}
}

func (r *responder) receive(now Time, p *rocev2.Packet) {
	q := r.q
	c := q.cfg.Count
	switch q.state {
	case verbs.StateRTR, verbs.StateRTS, verbs.StateSQD, verbs.StateSQE:
	default: // dropped silently (IBTA 10.3.1)
		c.Ignored++
		return
	}
	c.RecvPackets++
	c.RecvBytes += uint64(p.PayloadLen())
	switch q.cfg.Type {
	case verbs.RC:
		r.receiveRC(now, p)
	case verbs.UC:
		r.receiveUC(now, p)
	case verbs.UD:
		r.receiveUD(p)
	}
}
