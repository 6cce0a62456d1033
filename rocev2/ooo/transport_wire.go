// SPDX-License-Identifier: Apache-2.0

package ooo

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Deliver processes a packet of the peer. A peer that sends packets of the mode understands them.
func (t *Transport) Deliver(a qp.Arrival, p rocev2.Packet) {
	c := t.base.Config().Count
	if t.q == nil || t.q.Ended() {
		c.Ignored++
		return
	}
	if op := p.Opcode(); op < rocev2.OpOWrite || op > rocev2.OpONak {
		c.Malformed++
		return
	}
	t.announced |= 1 | 1<<a.Rail
	c.RecvPackets++
	c.RecvBytes += uint64(len(p.Payload()))
	t.base.Established()
	t.q.SetStampOffset(t.conf.Peer.StampOffset(int(a.Rail)))
	t.q.ReceiveOn(Time(a.Now), int(a.Rail), &p, EchoUs(rocev2.Stamp{Flags: a.StampFlags, T1: a.T1}))
	t.flushEnded()
}

// NextAck writes the next response without data to out and reports whether there was one.
func (t *Transport) NextAck(_ qp.Time, out *qp.Outbound) bool {
	if t.q == nil || !t.q.NextAck(t.conf.Packet) {
		return false
	}
	t.write(out)
	return true
}

// NextOn writes the next packet of data of a rail to out. It returns false if no packet may be sent now.
func (t *Transport) NextOn(now qp.Time, rail int, out *qp.Outbound) bool {
	if t.q == nil || !t.mayUse(now, rail) {
		return false
	}
	if t.waiting.len() > 0 {
		t.begin()
	}
	n := t.conf.Packet
	if !t.q.NextDataOn(Time(now), rail, n) {
		return false
	}
	c := t.base.Config().Count
	c.SentPackets++
	c.SentBytes += uint64(n.PayloadLen)
	if n.Again {
		c.SentAgain++
	}
	t.write(out)
	return true
}

// mayUse reports whether data may be sent on a rail. If not, it asks for the announcement.
func (t *Transport) mayUse(now qp.Time, rail int) bool {
	if !t.isAnnounced(0) {
		if t.askAt == 0 {
			t.ask(now)
		}
		return false
	}
	if !t.isAnnounced(rail) {
		t.conf.Peer.Ask(rail)
		return false
	}
	return true
}

// write writes the packet of the configuration to out. A packet that is sent again because it was found lost is a
// sign of loss; a probe is none.
func (t *Transport) write(out *qp.Outbound) {
	n := t.conf.Packet
	*out = qp.Outbound{Datagram: n.Datagram, Again: n.Again, Rail: uint8(n.Rail)}
	out.SetSource(n, n.PayloadLen)
	if n.Again && !n.Probe && n.Opcode != rocev2.OpOReadResp {
		out.Lost, out.Missed = true, 1
	}
}
