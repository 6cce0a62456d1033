// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// receiveRC compares the PSN (IBTA 9.7.3): the packet is the expected one, a duplicate, or
// out of order.
func (r *responder) receiveRC(now Time, p *rocev2.Packet) {
	op := p.Opcode()
	if op>>5 != rocev2.RCSendFirst>>5 { // another service: dropped (IBTA 9.6.1)
		r.q.cfg.Count.Ignored++
		return
	}
	psn := p.BTH().PSN()
	switch d := psn.Diff(r.expected); {
	case d < 0:
		r.duplicate(p, psn)
	case d > 0:
		r.outOfOrder(p, psn, d)
	default:
		r.deliver(now, p)
		if r.reorder != nil {
			r.deliverBuffered(now)
		}
	}
}

// deliver executes the expected packet.
func (r *responder) deliver(now Time, p *rocev2.Packet) {
	r.ack.cancelNAK()
	info := p.Opcode().Info()
	v, n := r.execute(p, info)
	if v != accepted {
		r.reject(now, v)
		return
	}
	r.q.cfg.Count.Delivered++
	r.expected = r.expected.Add(n)
	if !r.established {
		r.notifyEstablished()
	}
	switch info.Operation {
	case rocev2.OperationSend, rocev2.OperationWrite:
		r.ack.onAccepted(now, p.BTH().AckReq())
	}
}

// notifyEstablished reports the first request: to Config.First, and in RTR as EventQPEstablished
// (IBTA 11.6.3).
func (r *responder) notifyEstablished() {
	r.established = true
	if r.q.cfg.First != nil {
		r.q.cfg.First()
	}
	if r.q.state == verbs.StateRTR {
		r.q.notify(verbs.EventQPEstablished)
	}
}

// outOfOrder handles a packet after a gap. A softroce peer's packets are buffered
// (rsp_reorder.go), unless they may be forged (exact.go). Otherwise one NAK reports the gap (IBTA 9.7.5.2; rxe does the same).
func (r *responder) outOfOrder(p *rocev2.Packet, psn rocev2.PSN, ahead int) {
	r.q.cfg.Count.OutOfSequence++
	if r.q.attr.Selective && (r.q.exact || r.buffer(p, psn, ahead)) || r.ack.nakActive {
		return
	}
	r.ack.setNAK(rocev2.SyndromeNAK(rocev2.NAKPSNSequence), r.expected, r.msn)
}

// duplicate handles a packet that was executed before: the response was lost or is late
// (IBTA 9.7.5.1). SEND and WRITE are acknowledged again and not executed. READ and ATOMIC
// are answered from their resources.
func (r *responder) duplicate(p *rocev2.Packet, psn rocev2.PSN) {
	r.q.cfg.Count.DuplicateRequest++
	switch p.Opcode().Info().Operation {
	case rocev2.OperationSend, rocev2.OperationWrite:
		r.ack.requestRepeat()
	case rocev2.OperationRead:
		r.replayRead(p, psn)
	case rocev2.OperationAtomic:
		r.replayAtomic(psn)
	}
}
