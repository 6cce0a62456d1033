// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// transport sends and receives the packets of a queue pair. The queue pair has one for its life: a qp.QP, or an
// ooo.Transport in out-of-order mode. State, attributes, receive queue and limits of the destination are those of
// QP.q in both cases: the transport of out-of-order mode works on QP.q, and has no copy of them.
type transport interface {
	// Modify sets attributes and state.
	Modify(a verbs.Attr, mask verbs.AttrMask) error
	// PostSend puts a work request on the send queue, unless verbs.CheckSend refuses it or the queue is full.
	PostSend(wr *verbs.SendWR) error
	// SendQueued returns the number of work requests on the send queue.
	SendQueued() int
	// SendUsed returns how many places of Config.MaxSend are in use: work requests of the NIC itself have others.
	SendUsed() int

	// Deliver processes a packet of the peer. The packet is passed by value: where one escaped through the
	// interface, each received packet would be an allocation.
	Deliver(a qp.Arrival, p rocev2.Packet)
	// NextAck writes the next response without data to out, and reports whether there was one.
	NextAck(now qp.Time, out *qp.Outbound) bool
	// NextOn writes the next packet of data of a rail to out, and reports whether there was one. Rail 0 is the
	// interface of the device, and only out-of-order mode has others.
	NextOn(now qp.Time, rail int, out *qp.Outbound) bool
	// SendLimit returns why NextOn would have no packet.
	SendLimit(now qp.Time) qp.SendLimit

	// Deadline returns when Expire must be called, or 0.
	Deadline() qp.Time
	// Expire handles the timers that have expired.
	Expire(now qp.Time)
}

var (
	_ transport = (*qp.QP)(nil)
	_ transport = (*ooo.Transport)(nil)
)

// chooseTransport gives a new queue pair its transport, and a number: qpn, or if that is 0, one that shows the peer
// which transport it is.
func (e *Core) chooseTransport(x *QP, qpn uint32) (err error) {
	if x.ooo == nil {
		x.transport = &x.q
		if qpn != 0 {
			x.num = qpn
			return e.qps.Take(qpn, x)
		}
		x.num, err = e.qps.Alloc(x)
		return err
	}
	x.transport = ooo.NewTransport(&x.q, ooo.TransportConfig{
		Payload: x.ooo.payload, Peer: x.ooo, Count: &e.ooo.count, Packet: &e.ooo.packet,
	})
	x.num, err = e.qps.AllocOutOfOrder(x)
	return err
}

// setState goes to a state that needs no attributes.
func (x *QP) setState(s verbs.State) error {
	return x.transport.Modify(verbs.Attr{State: s}, verbs.MaskState)
}

// Nearly all queue pairs have a qp.QP, and each packet takes several of the calls that follow. So they call it without
// the interface: that costs a comparison, and no copy of the packet.

// receive processes a packet of the peer.
func (x *QP) receive(e *Core, p *rocev2.Packet, m *Meta) {
	switch q, ok := x.transport.(*qp.QP); {
	case !ok:
		x.transport.Deliver(qp.Arrival{Now: e.now, T1: m.T1, StampFlags: m.Flags, Rail: x.arrivedOn(p), Exact: m.exact}, *p)
	case m.exact:
		q.ReceiveExact(e.now, p)
	default:
		q.Receive(e.now, p)
	}
}

// nextAck returns the next response without data, or nil.
func (x *QP) nextAck(e *Core) *qp.Outbound {
	has := false
	if q, ok := x.transport.(*qp.QP); ok {
		has = q.NextAck(e.now, &e.tx.out)
	} else {
		has = x.transport.NextAck(e.now, &e.tx.out)
	}
	if !has {
		return nil
	}
	return &e.tx.out
}

// nextData returns the next packet of data of an egress, or nil.
func (x *QP) nextData(e *Core, g *egress) *qp.Outbound {
	has := false
	if q, ok := x.transport.(*qp.QP); ok {
		has = q.NextData(e.now, &e.tx.out)
	} else {
		has = x.transport.NextOn(e.now, x.ooo.rail(g), &e.tx.out)
	}
	if !has {
		return nil
	}
	return &e.tx.out
}

// sendUsed returns how many places of the send queue are in use.
func (x *QP) sendUsed() int {
	if q, ok := x.transport.(*qp.QP); ok {
		return q.SendUsed()
	}
	return x.transport.SendUsed()
}

// deadline returns when the transport's Expire must be called, or 0.
func (x *QP) deadline() qp.Time {
	if q, ok := x.transport.(*qp.QP); ok {
		return q.Deadline()
	}
	return x.transport.Deadline()
}
