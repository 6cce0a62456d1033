// SPDX-License-Identifier: Apache-2.0

package card

import (
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// doorbell executes a command word of block doorbells.
func (d *dataPath) doorbell(addr uint64, v uint32) {
	page := uint32((addr - regs.DoorbellsBase) / regs.DoorbellsStride)
	known := false
	switch (addr - regs.DoorbellsBase) % regs.DoorbellsStride {
	case regs.DoorbellsSqOffset:
		c := regs.DoorbellsSq(v)
		known = d.ringSend(d.qps[c.SqQueue()], page, uint16(c.SqProducer()))
	case regs.DoorbellsRqOffset:
		c := regs.DoorbellsRq(v)
		known = d.ringRecv(c.RqQueue(), page, uint16(c.RqProducer()))
	case regs.DoorbellsCqOffset:
		c := regs.DoorbellsCq(v)
		known = d.consume(d.cqs[c.CqQueue()], page, uint16(c.CqConsumer()))
	case regs.DoorbellsArmOffset:
		c := regs.DoorbellsArm(v)
		q := d.cqs[c.ArmQueue()]
		if known = q != nil && q.page == page; known {
			q.armed, q.solicited = true, c.ArmSolicited()
			q.show()
		}
	}
	if known {
		return
	}
	const at = regs.InterruptsBase
	d.in.W32(at+regs.InterruptsBadDoorbellOffset, v)
	d.in.W32(at+regs.InterruptsBadDoorbellAddrOffset, uint32(addr))
	d.in.add(at+regs.InterruptsBadDoorbellsOffset, 1)
	d.raise(regs.InterruptsCauses(0).WithDoorbell(true))
}

// ringSend reads new WQEs of a send queue. It returns false if the doorbell is refused.
func (d *dataPath) ringSend(x *queuePair, page uint32, producer uint16) bool {
	if x == nil || x.page != page {
		return false
	}
	s := x.q.State()
	if s == verbs.StateInit || s == verbs.StateRTR || !x.sq.advance(producer) {
		d.setEvents(x.num, regs.QpEvents(0).WithBadDoorbell(true))
		return false
	}
	d.fetchSend(x)
	return true
}

// ringRecv does so for a receive queue, own or shared.
func (d *dataPath) ringRecv(i, page uint32, producer uint16) bool {
	x, s := d.qps[i], d.srqs[i]
	switch {
	case x != nil && x.page == page:
		if x.srq != nil || x.recv.tasks != nil || !x.rq.advance(producer) {
			d.setEvents(i, regs.QpEvents(0).WithBadDoorbell(true))
			return false
		}
		d.fetchRecv(x)
	case s != nil && s.page == page:
		if !s.rq.advance(producer) {
			d.setEvents(i, regs.QpEvents(0).WithBadDoorbell(true))
			return false
		}
		d.fetchShared(s)
	default:
		return false
	}
	return true
}

// consume takes the consumer index of a completion queue.
func (d *dataPath) consume(q *completionQueue, page uint32, consumer uint16) bool {
	if q == nil || q.page != page || consumer-q.ring.consumer > q.ring.producer-q.ring.consumer {
		return false
	}
	q.ring.consumer = consumer
	q.show()
	return true
}

// fetchSend reads WQEs as far as the queue pair has room. It returns false if it has read none.
func (d *dataPath) fetchSend(x *queuePair) bool {
	before := x.sq.consumer
	for x.sq.consumer != x.sq.producer && x.q.SendUsed() < int(x.sq.entries) {
		b := d.scratch[:x.sq.entry]
		_ = d.ddr.ReadAt(b, x.sq.at(x.sq.consumer)) // newRing has checked the range
		x.sq.consumer++
		w := wqe.Wqe(b)
		if s := x.q.State(); s == verbs.StateErr || s == verbs.StateSQE {
			x.send.cq.Complete(verbs.Completion{WRID: w.WrId(), QPN: x.num, Status: verbs.StatusWRFlushed})
			continue
		}
		if !d.decodeSend(x, b) || x.post(&d.wr, nil) != nil {
			d.badWQE(x, x.send.cq, w.WrId())
		}
	}
	if before == x.sq.consumer {
		return false
	}
	d.showConsumers(x.num, &x.sq, &x.rq)
	return true
}

// badWQE ends a queue pair because of a WQE that is not valid (IBTA 10.8.2.1: an immediate
// error, which a card can only report as a completion).
func (d *dataPath) badWQE(x *queuePair, cq *completionQueue, id uint64) {
	d.setEvents(x.num, regs.QpEvents(0).WithBadWqe(true))
	_, _ = d.net.core.Modify(&x.q, &verbs.Attr{State: verbs.StateErr}, verbs.MaskState, nil) // possible from every state but RESET
	cq.Complete(verbs.Completion{WRID: id, QPN: x.num, Status: verbs.StatusLocalQPOperation})
}

// decodeSend reads a WQE into d.wr. It returns false if the WQE contradicts itself or names no
// address handle of the queue pair; PostSend checks the rest.
func (d *dataPath) decodeSend(x *queuePair, entry []byte) bool {
	ah, ok := wqe.DecodeSend(entry, x.q.Type(), &d.wr)
	if !ok || x.q.Type() != verbs.UD || d.wr.Op == verbs.OpBindWindow {
		return ok
	}
	a := d.handleAt(x, ah)
	if a == nil {
		return false
	}
	d.wr.AH = d.net.handleFor(x, ah, a)
	return true
}

// nextRecv reads the next WQE of a receive queue into d.recv. It returns false if the WQE has
// more elements than its entry.
func (d *dataPath) nextRecv(r *ring) bool {
	b := d.scratch[:r.entry]
	_ = d.ddr.ReadAt(b, r.at(r.consumer))
	r.consumer++
	return wqe.DecodeRecv(b, &d.recv)
}

func (d *dataPath) fetchRecv(x *queuePair) {
	before := x.rq.consumer
	for x.rq.consumer != x.rq.producer && x.q.RecvQueued() < int(x.rq.entries) {
		if !d.nextRecv(&x.rq) || d.net.core.Recv(&x.q, &d.recv) != nil {
			d.badWQE(x, x.recv.cq, d.recv.ID)
		}
	}
	if before != x.rq.consumer {
		d.showConsumers(x.num, &x.sq, &x.rq)
	}
}

// fetchShared reads WQEs of a shared receive queue. One that is not valid is left out, since no
// completion queue belongs to it.
func (d *dataPath) fetchShared(s *sharedQueue) {
	before := s.rq.consumer
	for s.rq.consumer != s.rq.producer && s.q.Len() < int(s.rq.entries) {
		if !d.nextRecv(&s.rq) || s.q.Post(&d.recv) != nil {
			d.setEvents(s.num, regs.QpEvents(0).WithBadWqe(true))
		}
	}
	if before != s.rq.consumer {
		d.showConsumers(s.num, &ring{}, &s.rq)
	}
}

// showConsumers writes the registers of what the card has read.
func (d *dataPath) showConsumers(i uint32, sq, rq *ring) {
	at := regs.QpBase + uint64(i)*regs.QpStride
	d.in.W32(at+regs.QpSqConsumedOffset, uint32(sq.consumer))
	d.in.W32(at+regs.QpRqConsumedOffset, uint32(rq.consumer))
}
