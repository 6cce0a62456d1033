// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// receiveUD processes a datagram (IBTA 9.8.3): one packet, whose PSN is ignored. It is
// dropped if the Q_Key is wrong, no receive is posted or the receive is too short.
func (r *responder) receiveUD(p *rocev2.Packet) {
	q, c := r.q, r.q.cfg.Count
	info := p.Opcode().Info()
	n := p.PayloadLen()
	switch {
	case info.Class != rocev2.ClassUD:
		c.Ignored++
		return
	case p.DETH().QKey() != q.attr.QKey: // IBTA 9.6.1
		c.BadQKey++
		return
	case p.BTH().PadCount() != -n&3 || r.pmtu != 0 && n > r.pmtu:
		c.Malformed++
		return
	case !r.takeReceive():
		c.NoBuffer++
		return
	case uint64(verbs.GRHLen+n) > r.buf.room:
		// The receive stays for the next datagram (class D; rxe).
		c.LocalError++
		return
	}
	f := r.scatterGRH(p)
	if f == mem.FaultNone {
		f = r.buf.scatter(q.cfg.Memory, r.recvPD(), p.Payload())
	}
	if f != mem.FaultNone {
		c.LocalError++
		r.abort(0, verbs.StatusLocalProtection, verbs.EventQPFatal)
		return
	}
	c.Delivered++
	r.complete(p, verbs.Completion{Op: verbs.OpRecv, Bytes: uint32(verbs.GRHLen + n), HasGRH: true, IPv4: !p.IsIPv6(), SrcQP: p.DETH().SrcQP()})
	if !r.established {
		r.notifyEstablished()
	}
}

// zeros precede an IPv4 header.
var zeros [verbs.GRHLen - 20]byte

// scatterGRH writes the first GRHLen bytes of the receive: the IPv6 header, or 20 bytes of
// zero and the IPv4 header without options (annex A17).
func (r *responder) scatterGRH(p *rocev2.Packet) mem.Fault {
	m, pd, h := r.q.cfg.Memory, r.recvPD(), p.IPHeader()
	if !p.IsIPv6() {
		h = h[:20]
		if f := r.buf.scatter(m, pd, zeros[:]); f != mem.FaultNone {
			return f
		}
	}
	return r.buf.scatter(m, pd, h)
}
