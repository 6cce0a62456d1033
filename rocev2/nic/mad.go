// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/cmservice"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Queue pair 1: the messages of the communication manager, in the engine's thread. There is no queue
// pair behind the number. A received message goes to the manager (cm.go), a sent one leaves before
// data, like an ACK; the pacer counts it, so that data makes up for it.

// madsWaiting is how many messages may wait for frames of the socket; more are dropped, and the
// manager repeats them.
const madsWaiting = 4096

func (e *engine) startMADs(svc *cmservice.Service) { e.mads.svc = svc }

// receiveMAD takes a packet to queue pair 1. False: there is no communication manager.
func (e *engine) receiveMAD(p *rocev2.Packet, meta *rxMeta) bool {
	m := &e.mads
	if m.svc == nil {
		return false
	}
	e.count.rxPackets++
	if !meta.proven && !e.admitMAD(p) {
		return true
	}
	switch bth, deth := p.BTH(), p.DETH(); {
	case bth.Version() != 0 || !matchPKey(bth.PKey(), rocev2.DefaultPKey),
		p.Opcode() != rocev2.UDSendOnly || deth == nil || deth.QKey() != mad.QKey,
		p.PayloadLen() != mad.Len:
		e.count.rxBadMAD++
	case !e.dev.owns(p.Dst()):
		e.count.rxOtherAddress++
	default:
		e.count.rxMADs++
		m.svc.Receive(p.Src(), p.Dst(), p.Payload(), e.proofOf(p, meta.proven))
	}
	return true
}

// proofOf returns how far the source address of a message can be believed.
func (e *engine) proofOf(p *rocev2.Packet, proven bool) cm.Proof {
	if proven {
		return cm.Proven
	}
	if d := e.dests[p.Src()]; d != nil && d.stamps && !d.guard.exactOnly() {
		return cm.Doubtful
	}
	return cm.Plain
}

// queueMAD queues a message.
func (e *engine) queueMAD(to *AH, m mad.Header) {
	if len(e.mads.queue) >= madsWaiting {
		e.count.madsDropped++
		return
	}
	e.mads.queue = append(e.mads.queue, madOut{to, m})
}

// sendMADs sends messages until there is no frame for the next one, and returns how many. Those to
// destinations that wait for their token stay in the queue.
func (e *engine) sendMADs() (n int) {
	q, kept, full := e.mads.queue, 0, false
	for i := range q {
		m := q[i]
		wait := m.to.dest != nil && m.to.dest.waits(e.now)
		full = full || !wait && !e.hasFrame(&m.to.address)
		if wait || full {
			q[kept] = m
			kept++
			continue
		}
		e.sendMAD(&m)
		n++
	}
	e.txFramesExhausted = e.txFramesExhausted || full
	clear(q[kept:])
	e.mads.queue = q[:kept]
	return n
}

func (e *engine) sendMAD(m *madOut) {
	if m.to.dest == nil {
		e.count.txNoPath++
		return
	}
	o := &e.out
	*o = qp.Outbound{}
	e.mads.psn = e.mads.psn.Add(1)
	o.Opcode, o.DestQP, o.SrcQP, o.QKey, o.PSN = rocev2.UDSendOnly, mad.QPN, mad.QPN, mad.QKey, e.mads.psn
	o.AH = m.to
	o.SetPayload(m.m)
	size, to := e.send(&e.mads.egress, o, false)
	to.consumeTokens(e, size)
	e.count.txMADs++
}
