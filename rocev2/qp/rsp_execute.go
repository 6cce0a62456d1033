// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// message is the SEND or WRITE in progress.
type message struct {
	op     rocev2.Operation // OperationNone between messages
	rkey   uint32           // WRITE
	va     uint64           // WRITE: address of the next packet's data
	length uint32           // WRITE: RETH.DMALen. SEND: bytes so far
	left   uint32           // WRITE: remaining bytes
}

// execute executes a request packet and returns how many PSNs it takes (IBTA 9.7.4). A
// packet that is not accepted has changed no memory.
func (r *responder) execute(p *rocev2.Packet, info *rocev2.OpcodeInfo) (verdict, int) {
	starts := info.Position == rocev2.PosFirst || info.Position == rocev2.PosOnly
	if starts == (r.message.op != rocev2.OperationNone) || !starts && info.Operation != r.message.op {
		// Unknown opcodes end here too, between messages and within.
		return badRequest, 0
	}
	switch info.Operation {
	case rocev2.OperationSend:
		return r.send(p, info), 1
	case rocev2.OperationWrite:
		return r.write(p, info), 1
	case rocev2.OperationRead:
		return r.read(p)
	case rocev2.OperationAtomic:
		return r.atomic(p), 1
	}
	return badRequest, 0
}

// lengthFits checks payload and pad by the place in the message (IBTA 9.7.4.1): FIRST and
// MIDDLE are full, LAST is not empty, and the pad fills up to 4 bytes.
func (r *responder) lengthFits(p *rocev2.Packet, info *rocev2.OpcodeInfo) bool {
	n := p.PayloadLen()
	if p.BTH().PadCount() != -n&3 {
		return false
	}
	switch info.Position {
	case rocev2.PosFirst, rocev2.PosMiddle:
		return n == r.pmtu
	case rocev2.PosLast:
		return n != 0 && n <= r.pmtu
	}
	return n <= r.pmtu
}

// send executes a packet of a SEND. The first packet takes the receive. Without a receive
// nothing changes, so that the same packet can be sent again.
func (r *responder) send(p *rocev2.Packet, info *rocev2.OpcodeInfo) verdict {
	if !r.lengthFits(p, info) {
		return badRequest
	}
	if r.message.op == rocev2.OperationNone {
		if !r.takeReceive() {
			return notReady
		}
		r.message = message{op: rocev2.OperationSend}
	}
	data := p.Payload()
	if uint64(len(data)) > r.buf.room || r.message.length+uint32(len(data)) > verbs.MaxMessage {
		return tooLong
	}
	if r.buf.scatter(r.q.cfg.Memory, r.recvPD(), data) != mem.FaultNone {
		return badBuffer
	}
	r.message.length += uint32(len(data))
	if info.Position == rocev2.PosFirst || info.Position == rocev2.PosMiddle {
		return accepted
	}
	c := verbs.Completion{Op: verbs.OpRecv, Bytes: r.message.length}
	if inv := p.IETH(); inv != nil {
		c.HasInv, c.InvKey = true, inv.RKey()
		// The clause does not define the response; rxe acknowledges and ends the
		// connection. Our NAK gives the reason.
		if f := r.q.cfg.Memory.InvalidateRemote(r.q.cfg.PD, r.q.cfg.QPN, c.InvKey); f != mem.FaultNone {
			return verdictOf(f)
		}
	}
	r.complete(p, c)
	r.endMessage()
	return accepted
}

// write executes a packet of a WRITE. The whole range is checked with the first packet
// (rxe checks each packet's part), so that a WRITE that does not fit changes nothing.
func (r *responder) write(p *rocev2.Packet, info *rocev2.OpcodeInfo) verdict {
	q := r.q
	if q.attr.Access&verbs.AccessRemoteWrite == 0 || !r.lengthFits(p, info) {
		return badRequest
	}
	m := r.message
	data := p.Payload()
	n := uint32(len(data))
	if reth := p.RETH(); reth != nil {
		m = message{op: rocev2.OperationWrite, rkey: reth.RKey(), va: reth.VA(), length: reth.DMALen()}
		m.left = m.length
		if m.length > verbs.MaxMessage {
			return badRequest
		}
	}
	last := info.Position == rocev2.PosLast || info.Position == rocev2.PosOnly
	if last != (n == m.left) || n > m.left {
		return badRequest // DMALen is not the length received (IBTA 9.7.4.1)
	}
	if info.Position == rocev2.PosFirst {
		if f := q.cfg.Memory.CheckRemote(q.cfg.PD, q.cfg.QPN, m.rkey, m.va, m.length, verbs.AccessRemoteWrite); f != mem.FaultNone {
			return verdictOf(f)
		}
	}
	imm := info.Ext&rocev2.ExtImmDt != 0
	if imm && !r.takeReceive() { // checked before anything is written
		return notReady
	}
	if n != 0 {
		if f := q.cfg.Memory.WriteRemote(q.cfg.PD, q.cfg.QPN, m.rkey, m.va, data); f != mem.FaultNone {
			return verdictOf(f)
		}
	}
	if !last {
		m.va += uint64(n)
		m.left -= n
		r.message = m
		return accepted
	}
	if m.length != 0 {
		a := mem.Arrival{QPN: q.cfg.QPN, RKey: m.rkey, Addr: m.va + uint64(n) - uint64(m.length), Len: m.length, HasImm: imm}
		if imm {
			a.Imm = p.ImmDt().Value()
		}
		q.cfg.Memory.EndWrite(q.cfg.PD, a)
	}
	if imm {
		r.complete(p, verbs.Completion{Op: verbs.OpRecvWriteImm, Bytes: m.length})
	}
	r.endMessage()
	return accepted
}

// complete puts c, with the fields from the last packet, on the completion queue.
func (r *responder) complete(p *rocev2.Packet, c verbs.Completion) {
	c.WRID, c.QPN = r.buf.id, r.q.cfg.QPN
	c.Solicited = p.BTH().Solicited()
	if imm := p.ImmDt(); imm != nil {
		c.HasImm, c.Imm = true, imm.Value()
	}
	r.buf.taken = false
	r.q.cfg.RecvCQ.Complete(c)
}

func (r *responder) endMessage() {
	r.message = message{}
	r.msn = (r.msn + 1) & rocev2.PSNMask
}
