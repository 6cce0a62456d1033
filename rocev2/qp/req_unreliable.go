// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const ucBit = rocev2.UCSendFirst

// nextUnreliable writes the next packet of UC or UD. There are no responses: a message is
// done when its last packet has been sent.
func (r *requester) nextUnreliable(now Time, out *Outbound) bool {
	q := r.q
	for r.cur != r.tail {
		w := r.at(r.cur)
		if w.packets == 0 {
			if !r.local(now, w) {
				return false
			}
			continue
		}
		if q.state == verbs.StateSQD && r.sndNxt == w.first {
			return false
		}
		n := r.sndNxt
		at := uint32(n - w.first)
		last := n+1 == w.end()
		off := uint32(0)
		if q.cfg.Type == verbs.UD {
			r.header(out, w, rocev2.UDSendOnly, r.psn(n))
			if w.op == verbs.OpSendImm {
				out.Opcode = rocev2.UDSendOnlyImm
			}
			out.AH, out.DestQP, out.QKey = w.x.ah, w.x.qpn, w.x.qkey
			if w.x.qkey>>31 != 0 { // the queue pair's own Q_Key (IBTA 10.2)
				out.QKey = q.attr.QKey
			}
			out.PayloadLen = int(w.length)
		} else {
			place := 1
			switch {
			case w.packets == 1:
				place = 3
			case at == 0:
				place = 0
			case last:
				place = 2
			}
			r.header(out, w, opcodes[w.op][place]|ucBit, r.psn(n))
			off = at << (7 + q.attr.PMTU)
			out.PayloadLen = int(min(w.length-off, 128<<q.attr.PMTU))
		}
		out.Again, out.Lost, out.AckReq = false, false, false
		out.Solicited = last && w.flags&verbs.Solicited != 0
		out.fill, out.wqe, out.off = r, r.cur, off
		r.sndNxt = n + 1
		r.sndMax, r.sndUna = r.sndNxt, r.sndNxt
		r.count(out)
		if last {
			r.cur++
			if out.PayloadLen == 0 {
				r.completeUnreliable(now)
			}
		}
		return true
	}
	return false
}

// completeUnreliable completes the message of UC or UD whose last packet has been sent.
func (r *requester) completeUnreliable(now Time) {
	r.complete(r.take())
	r.idle(now)
}

// NextAH returns the address handle of the packet that NextData returns next, so that the
// engine can check pacer and socket of that destination first. It returns nil for RC and
// UC, and if there is no packet.
func (q *QP) NextAH() verbs.AH {
	r := &q.req
	if q.cfg.Type != verbs.UD || q.state != verbs.StateRTS || r.cur == r.tail {
		return nil
	}
	return r.at(r.cur).x.ah
}
