// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// send is stages 3 to 5. It returns the length of the frame without the option and
// where it went, also if it could not leave: the queue pair takes it for lost. ahead: hooks
// send it before the queues of destinations are served.
func (e *engine) send(g *egress, o *qp.Outbound, ahead bool) (size int, d *dest) {
	a := g.addressOf(o)
	to := a.current()
	d = g.destOf(a)
	lose := func(why *uint64) (int, *dest) {
		*why++
		o.Drop()
		return 0, d
	}
	if to.Err != nil {
		return lose(&e.count.txNoPath)
	}
	o.Src, o.Dst, o.TOS, o.TTL, o.FlowLabel = to.Src, to.Dst, a.flow.TClass, a.flow.HopLimit, 0
	o.SrcPort = a.srcPort(o)
	room := g.payloadRoom(o)
	plain := o.Len(room)
	if plain > to.MTU || o.AH != nil && exceeds(to.PMTU, uint64(o.PayloadLen)) { // which have become smaller
		return lose(&e.count.txNoRoom)
	}
	var frame []byte
	if to.Loopback {
		frame = e.loopback.frame()
	} else {
		frame = d.sock.xsk.Frame()
	}
	if frame == nil {
		return lose(&e.count.txNoRoom)
	}
	o.Stamp = e.stampFor(d, to, plain)
	omitT1 := e.hooks != nil && e.hooks.onSend(g.qp, d, o, ahead)
	payload, err := o.Begin(frame[etherLen:], room)
	if err != nil {
		return lose(&e.count.txNoRoom)
	}
	copy(frame, to.Ether[:])
	if !e.fill(g, o, frame[etherLen:], payload) {
		e.markDirty(g.qp)
		return 0, d
	}
	if o.Stamp != nil {
		d.stamp(o.Stamp, uint64(int64(e.clock.now())+e.railOf(d).config.ClockOffset))
		if omitT1 {
			o.Stamp.Flags &^= rocev2.StampT1
		}
	}
	e.count.txPackets++
	if to.Loopback {
		e.loopback.push(etherLen + o.SealLocal(frame[etherLen:]))
		return etherLen + plain, d
	}
	d.sock.xsk.Push(etherLen + o.Seal(frame[etherLen:]))
	d.sock.pushed++
	e.sent(g.qp, d, o, plain)
	return etherLen + plain, d
}

// stampFor returns where to build the option, or nil: the packet gets none.
func (e *engine) stampFor(d *dest, to *route.State, plain int) *rocev2.Stamp {
	if to.Loopback || !d.stamps {
		return nil
	}
	token, ok := e.tokenFor(d, to.Src)
	switch {
	case !ok:
		return nil
	case plain+rocev2.StampLen > to.MTU:
		e.count.txTooBig++
		return nil
	}
	e.stamp = rocev2.Stamp{Token: token} // until it is filled in
	return &e.stamp
}
