// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The transport of a queue pair is package qp, or out-of-order mode (ooo_qp.go). QP.q has the state,
// the attributes and the receive queue in both cases. These functions choose; nothing else in the engine
// knows the mode.

// postSend puts a work request on the send queue.
func (x *QP) postSend(wr *verbs.SendWR) error {
	if x.ooo != nil {
		return x.ooo.post(wr)
	}
	return x.q.PostSend(wr)
}

// sendQueued returns the number of work requests on the send queue.
func (x *QP) sendQueued() int {
	if x.ooo != nil {
		return x.ooo.queued
	}
	return x.q.SendQueued()
}

// sendUsed is how many places of Config.MaxSend are in use: work requests of the NIC itself have others.
func (x *QP) sendUsed() int {
	if x.ooo != nil {
		return x.ooo.queued
	}
	return x.q.SendUsed()
}

// modify sets attributes and state.
func (x *QP) modify(a verbs.Attr, mask verbs.AttrMask) error {
	if x.ooo != nil {
		return x.ooo.modify(a, mask)
	}
	return x.q.Modify(a, mask)
}

// setState goes to a state that needs no attributes.
func (x *QP) setState(s verbs.State) error { return x.modify(verbs.Attr{State: s}, verbs.MaskState) }

// receive processes a packet of the peer.
func (x *QP) receive(e *engine, p *rocev2.Packet, m *rxMeta) {
	if x.ooo != nil {
		x.ooo.receive(e, p, m)
		return
	}
	if m.exact {
		x.q.ReceiveExact(e.now, p)
		return
	}
	x.q.Receive(e.now, p)
}

// nextAck returns the next response without data, or nil.
func (x *QP) nextAck(e *engine) *qp.Outbound {
	if x.ooo != nil {
		return x.ooo.nextAck(e)
	}
	if x.q.NextAck(e.now, &e.out) {
		return &e.out
	}
	return nil
}

// nextData returns the next packet of data for an egress, or nil.
func (x *QP) nextData(e *engine, g *egress) *qp.Outbound {
	if x.ooo != nil {
		return x.ooo.nextData(e, g)
	}
	if x.q.NextData(e.now, &e.out) {
		return &e.out
	}
	return nil
}

// deadline returns when expire must be called, or 0.
func (x *QP) deadline() qp.Time {
	if x.ooo != nil {
		return x.ooo.deadline()
	}
	return x.q.Deadline()
}

// expire handles the timers that have expired.
func (x *QP) expire(e *engine) {
	if x.ooo != nil {
		x.ooo.expire(e)
		return
	}
	x.q.Expire(e.now)
}

// transportLimit returns why nextData would have no packet.
func (x *QP) transportLimit(now qp.Time) qp.SendLimit {
	if x.ooo != nil {
		return x.ooo.sendLimit()
	}
	return x.q.SendLimit(now)
}

// allocQPN takes a number for a queue pair.
func (e *engine) allocQPN(x *QP) (uint32, error) {
	if x.ooo != nil {
		return e.qps.AllocOutOfOrder(x)
	}
	return e.qps.Alloc(x)
}
