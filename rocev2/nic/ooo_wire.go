// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// receive implements QP.receive. A peer that sends packets of the mode understands them.
func (o *oooQP) receive(e *engine, p *rocev2.Packet, m *rxMeta) {
	c := o.x.q.Config().Count
	if o.q == nil || o.q.Ended() {
		c.Ignored++
		return
	}
	if op := p.Opcode(); op < rocev2.OpOWrite || op > rocev2.OpONak {
		c.Malformed++
		return
	}
	o.announced = true
	c.RecvPackets++
	c.RecvBytes += uint64(len(p.Payload()))
	o.x.q.Established()
	rail, offset := o.arrived(p), e.config.ClockOffset
	if rail > 0 {
		offset = e.railOf(o.rails[rail-1].dest).config.ClockOffset
	}
	o.q.SetStampOffset(ooo.Time(offset))
	o.q.ReceiveOn(ooo.Time(e.now), rail, p, ooo.EchoUs(rocev2.Stamp{Flags: m.flags, T1: m.t1}))
	o.settle()
}

// nextAck implements QP.nextAck.
func (o *oooQP) nextAck(e *engine) *qp.Outbound {
	if o.q == nil || !o.q.NextAck(&e.ooo.next) {
		return nil
	}
	return e.ooo.outbound()
}

// nextData implements QP.nextData.
func (o *oooQP) nextData(e *engine, g *egress) *qp.Outbound {
	rail := o.rail(g)
	if o.q == nil || !o.mayStart() || !o.mayUse(rail) {
		return nil
	}
	if o.waiting.len() > 0 {
		o.begin()
	}
	n := &e.ooo.next
	if !o.q.NextDataOn(ooo.Time(e.now), rail, n) {
		return nil
	}
	c := o.x.q.Config().Count
	c.SentPackets++
	c.SentBytes += uint64(n.PayloadLen)
	if n.Again {
		c.SentAgain++
	}
	return e.ooo.outbound()
}

// outbound is the packet as the engine sends it. A packet that is sent again because it was found lost
// is a sign of loss; a probe is none.
func (s *oooState) outbound() *qp.Outbound {
	n := &s.next
	s.out = qp.Outbound{Datagram: n.Datagram, Again: n.Again}
	s.out.SetSource(n, n.PayloadLen)
	if n.Again && !n.Probe && n.Opcode != rocev2.OpOReadResp {
		s.out.Lost, s.out.Missed = true, 1
	}
	return &s.out
}
