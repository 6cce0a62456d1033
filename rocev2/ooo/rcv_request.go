// SPDX-License-Identifier: Apache-2.0

package ooo

import "github.com/softroce/softroce-xdp/rocev2"

// receiver is the receiving engine of S3.4.
type receiver struct {
	q         *QP
	arrivals  psnWindow
	notified  idWindow
	responses responseQueue
}

func (r *receiver) init(q *QP) {
	r.q = q
	r.arrivals = newPSNWindow(q.cfg.Window, q.cfg.RecvPSN)
	r.responses.init(&q.cfg)
}

// request processes a packet of the peer's sending engine: whether it is new, what it asks for,
// and its response.
func (r *receiver) request(rail int, p *rocev2.Packet, echoUs uint32) {
	c := r.q.cfg.Count
	psn := p.BTH().PSN()
	class := r.arrivals.classify(psn)
	switch class {
	case psnStale:
		c.Stale++
		return
	case psnBeyond:
		c.Beyond++
		return
	case psnDuplicate:
		c.Duplicates++
	}
	a := answer{psn: psn, echoUs: echoUs, port: p.SrcPort(), rail: uint8(rail), congested: p.CE()}
	if p.Opcode() == rocev2.OpONotify {
		r.onNotify(p, class, a)
		return
	}
	h := p.OETH()
	if h == nil {
		c.Malformed++
		return
	}
	f := h.Fields()
	a.oeth = f
	a.message = f.Message
	if p.Opcode() == rocev2.OpOReadReq {
		r.onRead(class, a)
		return
	}
	r.onWrite(p.Payload(), class, a)
}

// onWrite places the data of an OWRITE, unless it has arrived before.
func (r *receiver) onWrite(data []byte, class psnClass, a answer) {
	switch {
	case class == psnDuplicate:
	case int(a.oeth.Length) != len(data) || len(data) > r.q.cfg.Payload:
		r.refuse(a, rocev2.ONakInvalidRequest)
		return
	default:
		if code := r.writeMemory(&a.oeth, data); code != 0 {
			r.refuse(a, code)
			return
		}
		r.arrivals.add(a.psn)
	}
	a.op = rocev2.OpOAck
	a.own = class == psnDuplicate || a.oeth.Flags&rocev2.ORetry != 0
	r.responses.putOAck(r.q.cfg.Count, a, r.arrivals.base)
}

// onRead queues the response to an OREAD_REQ. A repeated request is executed again, as its
// response may be lost, but not while the response still is queued.
func (r *receiver) onRead(class psnClass, a answer) {
	if a.oeth.Length > uint32(r.q.cfg.Payload) {
		r.refuse(a, rocev2.ONakInvalidRequest)
		return
	}
	if code := r.checkRead(&a.oeth); code != 0 {
		r.refuse(a, code)
		return
	}
	if class == psnDuplicate && r.responses.hasRead(a.psn) {
		return
	}
	a.op = rocev2.OpOReadResp
	if r.responses.put(r.q.cfg.Count, a) && class == psnNew {
		r.arrivals.add(a.psn)
	}
}

// onNotify puts a notification on its queue, once for each message id.
func (r *receiver) onNotify(p *rocev2.Packet, class psnClass, a answer) {
	f := p.ONotify().Fields()
	a.message, a.op = f.Message, rocev2.OpONotifyAck
	if r.notified.has(f.Message) {
		r.q.cfg.Count.NotifyRepeat++
	} else {
		n := Notification{
			QPN: r.q.cfg.QPN, Message: f.Message, Descriptor: f.Descriptor, Length: f.Length,
			Solicited: f.Status&rocev2.ONotifySolicited != 0,
		}
		if code := r.deliver(f.Queue, n); code == rocev2.ONakNotReady {
			a.op, a.code = rocev2.OpONak, code
		} else if code != 0 {
			r.refuse(a, code)
			return
		} else {
			r.notified.add(f.Message)
			r.q.cfg.Count.Notified++
		}
	}
	if class == psnNew {
		r.arrivals.add(a.psn) // also if the queue is full: the packets after it go on
	}
	r.responses.put(r.q.cfg.Count, a)
}

// refuse answers with ONAK. The packet does not count as arrived: an empty one follows with its
// PSN.
func (r *receiver) refuse(a answer, code rocev2.ONakCode) {
	r.q.cfg.Count.Refused++
	a.op, a.code = rocev2.OpONak, code
	r.responses.put(r.q.cfg.Count, a)
}
