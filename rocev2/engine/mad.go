// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Queue pair 1: the messages of the communication manager. There is no queue
// pair behind the number. A received message goes to the manager, a sent one leaves before
// data, like an ACK; the pacer counts it, so that data makes up for it.

// madsWaiting is how many messages may wait for frames of the port; more are dropped, and the
// manager repeats them.
const madsWaiting = 4096

// MADReceiver takes the messages that arrive for the communication manager.
type MADReceiver interface {
	// Receive takes a message. m is valid during the call only.
	Receive(src, dst netip.Addr, m []byte, proof cm.Proof)
}

// madQueue has queue pair 1: the messages of the communication manager.
type madQueue struct {
	e      *Core
	egress egress      // egress of queue pair 1, without a queue pair: each message has an address handle
	to     MADReceiver // nil: there is no communication manager
	queue  []madOut    // messages to be sent
	psn    rocev2.PSN
}

// madOut is a message to be sent.
type madOut struct {
	to AddressHandle
	m  mad.Header
}

// StartMADs has the messages to queue pair 1 go to a communication manager.
func (e *Core) StartMADs(to MADReceiver) { e.mads.to = to }

// SendMAD queues a message of the communication manager. Run sends it.
func (e *Core) SendMAD(to AddressHandle, m mad.Header) { e.mads.push(to, m) }

// receive takes a packet to queue pair 1. False: there is no communication manager.
func (q *madQueue) receive(p *rocev2.Packet, meta *Meta) bool {
	if q.to == nil {
		return false
	}
	q.e.count.rxPackets++
	if !meta.Proven && !q.admit(p) {
		return true
	}
	switch bth, deth := p.BTH(), p.DETH(); {
	case bth.Version() != 0 || !MatchPKey(bth.PKey(), rocev2.DefaultPKey),
		p.Opcode() != rocev2.UDSendOnly || deth == nil || deth.QKey() != mad.QKey,
		p.PayloadLen() != mad.Len:
		q.e.count.rxBadMAD++
	case !q.e.host.Owns(p.Dst()):
		q.e.count.rxOtherAddress++
	default:
		q.e.count.rxMADs++
		q.to.Receive(p.Src(), p.Dst(), p.Payload(), q.proofOf(p, meta.Proven))
	}
	return true
}

// proofOf returns how far the source address of a message can be believed.
func (q *madQueue) proofOf(p *rocev2.Packet, proven bool) cm.Proof {
	if proven {
		return cm.Proven
	}
	if d := q.e.dests.rails[0].dests[p.Src()]; d != nil && d.stamps && !d.guard.exactOnly() {
		return cm.Doubtful
	}
	return cm.Plain
}

// push queues a message.
func (q *madQueue) push(to AddressHandle, m mad.Header) {
	if len(q.queue) >= madsWaiting {
		q.e.count.madsDropped++
		return
	}
	q.queue = append(q.queue, madOut{to, m})
}

// sendAll sends messages until there is no frame for the next one, and returns how many. Those to
// destinations that wait for their token stay in the queue.
func (q *madQueue) sendAll() (n int) {
	list, kept, full := q.queue, 0, false
	for i := range list {
		m := list[i]
		to := m.to.Address()
		wait := to.dest != nil && to.dest.waits(q.e.now)
		full = full || !wait && !q.e.tx.hasFrame(to)
		if wait || full {
			list[kept] = m
			kept++
			continue
		}
		q.sendOne(&m)
		n++
	}
	q.e.tx.framesExhausted = q.e.tx.framesExhausted || full
	clear(list[kept:])
	q.queue = list[:kept]
	return n
}

func (q *madQueue) sendOne(m *madOut) {
	if m.to.Address().dest == nil {
		q.e.count.txNoPath++
		return
	}
	o := &q.e.tx.out
	*o = qp.Outbound{}
	q.psn = q.psn.Add(1)
	o.Opcode, o.DestQP, o.SrcQP, o.QKey, o.PSN = rocev2.UDSendOnly, mad.QPN, mad.QPN, mad.QKey, q.psn
	o.AH = m.to
	o.SetPayload(m.m)
	size, to := q.e.tx.send(&q.egress, o, false)
	to.consumeTokens(q.e, size, false)
	q.e.count.txMADs++
}
