// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// send is stages 3 to 5. It returns the length of the frame without the option and
// where it went, also if it could not leave: the queue pair takes it for lost. ahead: hooks
// send it before the queues of destinations are served.
func (t *transmitter) send(g *egress, o *qp.Outbound, ahead bool) (size int, d *dest) {
	a := g.addressOf(o)
	to := a.current()
	d = g.destOf(a)
	lose := func(why *uint64) (int, *dest) {
		*why++
		o.Drop()
		return 0, d
	}
	if to.Err != nil {
		return lose(&t.e.count.txNoPath)
	}
	o.Src, o.Dst, o.TOS, o.TTL, o.FlowLabel = to.Src, to.Dst, a.Flow.TClass, a.Flow.HopLimit, 0
	o.SrcPort = a.srcPort(o)
	room := g.payloadRoom(o)
	plain := o.Len(room)
	if plain > to.MTU || o.AH != nil && to.Exceeds(uint64(o.PayloadLen)) { // which have become smaller
		return lose(&t.e.count.txNoRoom)
	}
	var frame []byte
	if to.Loopback {
		frame = t.e.rx.loopback.frame()
	} else {
		frame = to.portTo(d).Frame()
	}
	if frame == nil {
		return lose(&t.e.count.txNoRoom)
	}
	o.Stamp = t.stampFor(d, to, plain)
	omitT1 := t.e.hooks != nil && t.e.hooks.onSend(g.qp, d, o, ahead)
	payload, err := o.Begin(frame[etherLen:], room)
	if err != nil {
		return lose(&t.e.count.txNoRoom)
	}
	copy(frame, to.Ether[:])
	if !t.fill(g, o, frame[etherLen:], payload) {
		t.markDirty(g.qp)
		return 0, d
	}
	if o.Stamp != nil && d.entry == nil {
		d.stamp(o.Stamp, uint64(int64(t.e.host.Clock())+t.e.dests.of(d).config.ClockOffset))
		if omitT1 {
			o.Stamp.Flags &^= rocev2.StampT1
		}
	}
	t.e.count.txPackets++
	if to.Loopback {
		t.e.rx.loopback.push(etherLen + o.SealLocal(frame[etherLen:]))
		return etherLen + plain, d
	}
	to.portTo(d).Push(etherLen + o.Seal(frame[etherLen:]))
	t.sent(g.qp, d, o, plain)
	return etherLen + plain, d
}

// stampFor returns where to build the option, or nil: the packet gets none.
func (t *transmitter) stampFor(d *dest, to *PathState, plain int) *rocev2.Stamp {
	if d.entry != nil {
		if t.stamp = (rocev2.Stamp{}); !d.entry.Stamp(t.e.now, plain, to.MTU, &t.stamp) {
			return nil
		}
		return &t.stamp
	}
	if to.Loopback || !d.stamps {
		return nil
	}
	token, ok := t.e.dests.tokenFor(d, to.Src)
	switch {
	case !ok:
		return nil
	case plain+rocev2.StampLen > to.MTU:
		t.e.count.txTooBig++
		return nil
	}
	t.stamp = rocev2.Stamp{Token: token} // until it is filled in
	return &t.stamp
}
