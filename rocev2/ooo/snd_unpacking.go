// SPDX-License-Identifier: Apache-2.0

package ooo

import "github.com/softroce/softroce-xdp/rocev2"

// unpack takes a response packet apart, and checks that it belongs to a packet of this side.
func (s *sender) unpack(now Time, p *rocev2.Packet) {
	s.now = now
	h := p.BTH()
	psn := h.PSN()
	congested := p.CE() || h.BECN()
	switch p.Opcode() {
	case rocev2.OpOAck:
		f := p.OACK().Fields()
		k := s.find(psn, f.Message)
		s.onAck(now, psn, k, &f, congested)
	case rocev2.OpOReadResp:
		h := p.OETH()
		if h == nil {
			s.q.cfg.Count.Malformed++
			return
		}
		f := h.Fields()
		if k := s.expected(psn, f.Message, packetRead); k != nil {
			s.onReadResponse(now, k, &f, p.Payload(), congested)
		}
	case rocev2.OpONotifyAck:
		f := p.ONotifyAck().Fields()
		if k := s.expected(psn, f.Message, packetNotify); k != nil {
			s.answeredDirectly(now, k, s.transmission(k, f.EchoUs), congested)
		}
	case rocev2.OpONak:
		f := p.ONak().Fields()
		if k := s.find(psn, f.Message); k == nil {
			s.q.cfg.Count.Stray++
		} else {
			s.onNak(now, k, f.Code)
		}
	}
}

// find returns the packet of the data buffer with this PSN and message, or nil.
func (s *sender) find(psn rocev2.PSN, id uint32) *packet {
	k := s.packets.get(psn)
	if k == nil || k.id != id {
		return nil
	}
	return k
}

// expected is find for a response of a kind; others are counted.
func (s *sender) expected(psn rocev2.PSN, id uint32, kind packetKind) *packet {
	k := s.find(psn, id)
	if k == nil || k.kind != kind {
		s.q.cfg.Count.Stray++
		return nil
	}
	return k
}
