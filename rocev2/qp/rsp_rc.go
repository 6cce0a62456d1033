// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

// receiveRC sorts by PSN (IBTA 9.7.3): the one expected, one that was there
// before, or one beyond a gap.
func (r *responder) receiveRC(now Time, p *rocev2.Packet) {
	op := p.Opcode()
	if op>>5 != rocev2.RCSendFirst>>5 { // of another service: dropped (IBTA 9.6.1)
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

// deliver executes the packet that was expected.
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

// notifyEstablished tells once that the connection is established (IBTA 11.6.3).
func (r *responder) notifyEstablished() {
	r.established = true
	if r.q.state == RTR {
		r.q.notify(EventEstablished)
	}
}

// outOfOrder is a packet behind a gap. The gap is reported once (IBTA 9.7.5.2; rxe
// does the same), or packets beyond it are kept (rsp_reorder.go).
func (r *responder) outOfOrder(p *rocev2.Packet, psn rocev2.PSN, ahead int) {
	r.q.cfg.Count.OutOfSequence++
	if r.q.attr.Selective && r.buffer(p, psn, ahead) || r.ack.nakActive {
		return
	}
	r.ack.setNAK(rocev2.SyndromeNAK(rocev2.NAKPSNSequence), r.expected, r.msn)
}

// duplicate is a packet that came before: our answer was lost or is late (IBTA
// 9.7.5.1). SEND and WRITE have had their effect; READ and ATOMIC are answered
// again from what was kept of them.
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
