// SPDX-License-Identifier: Apache-2.0

package ooo

import (
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// readMemory is the memory access of the sending engine: it reads the data of an OWRITE. If the
// memory is not accessible any more, the message fails. The packet was not sent; an empty one
// takes its PSN.
func (s *sender) readMemory(o *Outbound, dst []byte) bool {
	if s.q.cfg.Memory.ReadLocal(s.q.cfg.PD, o.data.key, o.data.addr, dst) == mem.FaultNone {
		return true
	}
	k, m := s.packets.get(o.data.psn), s.messages.get(o.data.id)
	s.unlink(k)
	s.packets.putLost(k)
	s.fail(m, verbs.StatusLocalProtection)
	return false
}

// writeMemory places the data of an OREAD_RESP. The address is that of the request: none is
// taken from the responder.
func (s *sender) writeMemory(m *message, k *packet, src []byte) bool {
	off, _ := m.offset(k.index)
	if s.q.cfg.Memory.WriteLocal(s.q.cfg.PD, m.lkey, m.local+off, src) != mem.FaultNone {
		return false
	}
	s.q.cfg.Count.ReadPlaced++
	return true
}
