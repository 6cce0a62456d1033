// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// ring is a queue in card memory that the driver fills. The zero ring has no memory.
type ring struct {
	base               uint64
	log2, entryLog2    uint32
	producer, consumer uint16 // consumer: as it was read last
	entry              []byte // for the next WQE
}

func newRing(d *Device, log2Entries, log2Entry uint32) (r ring, err error) {
	r = ring{log2: log2Entries, entryLog2: log2Entry, entry: make([]byte, 1<<log2Entry)}
	r.base, err = d.newRing(log2Entries, log2Entry)
	if err != nil {
		return ring{}, err
	}
	return r, nil
}

func (r *ring) free(d *Device) {
	if r.entry != nil {
		d.give(&d.memory, r.base, 1<<(r.log2+r.entryLog2))
		r.entry = nil
	}
}

func (r *ring) reset() { r.producer, r.consumer = 0, 0 }

// push writes the entry to the ring, if there is room. consumer reads how far the card is.
func (r *ring) push(d *Device, consumer func() uint32) error {
	if r.producer-r.consumer == 1<<r.log2 {
		r.consumer = uint16(consumer())
		if r.producer-r.consumer == 1<<r.log2 {
			return verbs.ErrQueueFull
		}
	}
	at := r.base + uint64(r.producer)%(1<<r.log2)<<r.entryLog2
	if _, err := d.card.DDR().WriteAt(r.entry, int64(at)); err != nil {
		return err
	}
	r.producer++
	return nil
}

// AH is an address handle of a UD queue pair: the address of a destination.
type AH struct {
	q *QP
	i int
}

var _ verbs.AH = (*AH)(nil)

// CreateAH makes an address handle for the work requests of a UD queue pair.
func (q *QP) CreateAH(av verbs.AddressVector) (*AH, error) {
	if q.init.Type != verbs.UD {
		return nil, fmt.Errorf("card: queue pair %d is %s: address handles are for UD", q.num, q.init.Type)
	}
	hop, err := q.d.resolve(&av)
	if err != nil {
		return nil, err
	}
	for i, used := range q.ahUsed {
		if used {
			continue
		}
		h := regs.AddressHandle(make([]byte, regs.AddressHandleBytes))
		high, low := regs.AddrWords(av.Src)
		h.SetSrcAddr(high)
		h.SetSrcAddrLow(low)
		high, low = regs.AddrWords(av.Dst)
		h.SetDstAddr(high)
		h.SetDstAddrLow(low)
		h.SetMac(regs.MACWord(hop.MAC))
		h.SetNode(uint32(hop.Node))
		h.SetPort(uint32(hop.Port))
		h.SetTclass(uint32(av.TClass))
		h.SetHopLimit(uint32(av.HopLimit))
		h.SetAhPd(q.init.PD)
		h.SetValid(true)
		q.ahUsed[i] = true
		return &AH{q, i}, q.writeAH(i, h)
	}
	return nil, fmt.Errorf("card: all %d address handles of queue pair %d are taken: create it with a larger MaxAH", len(q.ahUsed), q.num)
}

func (q *QP) writeAH(i int, h regs.AddressHandle) error {
	_, err := q.d.card.DDR().WriteAt(h, int64(q.ahs.base)+int64(i)*regs.AddressHandleBytes)
	return err
}

// Destroy ends the handle. Work requests that the card has read keep it.
func (a *AH) Destroy() error {
	a.q.ahUsed[a.i] = false
	return a.q.writeAH(a.i, make([]byte, regs.AddressHandleBytes))
}

// PostSend puts a work request on the send queue and rings the doorbell (S2.2). It fails with
// verbs.ErrQueueFull if the card has not read enough of those before. A work request that the card
// finds wrong completes with StatusLocalQPOperation.
func (q *QP) PostSend(wr *verbs.SendWR) error {
	if err := q.encode(wr); err != nil {
		return err
	}
	if err := q.sq.push(q.d, func() uint32 { return q.context().SqConsumed().SqConsumer() }); err != nil {
		return err
	}
	q.doorbell().SetSq(regs.DoorbellsSq(0).WithSqQueue(uint32(q.num)).WithSqProducer(uint32(q.sq.producer)))
	return q.d.card.Err()
}

// encode writes a work request to the entry.
func (q *QP) encode(wr *verbs.SendWR) error {
	handle := uint32(0)
	if q.init.Type == verbs.UD {
		a, ok := wr.AH.(*AH)
		if !ok || a.q != q {
			return fmt.Errorf("%w: make it with CreateAH of this queue pair", verbs.ErrAH)
		}
		handle = uint32(a.i)
	}
	return wqe.EncodeSend(q.sq.entry, q.init.Type, wr, handle)
}

// postRecv puts a work request on a receive queue.
func (r *ring) postRecv(d *Device, num uint64, wr *verbs.RecvWR) error {
	if err := wqe.EncodeRecv(r.entry, wr); err != nil {
		return err
	}
	if err := r.push(d, func() uint32 { return regs.QpOf(d.card, int(num)).RqConsumed().RqConsumer() }); err != nil {
		return err
	}
	regs.DoorbellsOf(d.card, d.config.Page).SetRq(regs.DoorbellsRq(0).WithRqQueue(uint32(num)).WithRqProducer(uint32(r.producer)))
	return d.card.Err()
}

// PostRecv puts a work request on the receive queue, from INIT on.
func (q *QP) PostRecv(wr *verbs.RecvWR) error {
	if q.init.SRQ != nil {
		return verbs.ErrSRQ
	}
	return q.rq.postRecv(q.d, q.num, wr)
}

// SRQ is a shared receive queue: an element of block qp.
type SRQ struct {
	d   *Device
	num uint64
	rq  ring
}

// CreateSRQ makes a shared receive queue for depth work requests of up to maxSGE elements.
func (d *Device) CreateSRQ(pd uint32, depth, maxSGE int) (*SRQ, error) {
	if depth < 1 || depth > 1<<maxLog2 || maxSGE < 1 || maxSGE > MaxRecvSGE {
		return nil, fmt.Errorf("card: a shared receive queue of %d work requests with %d elements: use up to %d and %d", depth, maxSGE, 1<<maxLog2, MaxRecvSGE)
	}
	s := &SRQ{d: d}
	var err error
	if s.rq, err = newRing(d, log2(depth), log2(wqe.WqeRecvBytes+maxSGE*wqe.SgeBytes)); err != nil {
		return nil, err
	}
	if s.num, err = d.take(&d.qps, 1, 1); err != nil {
		s.rq.free(d)
		return nil, err
	}
	const typeSRQ = 4
	e := s.context()
	e.SetModify(command(verbs.StateReset, 0)) // whatever was there before
	e.SetConfig(regs.QpConfig(0).WithQpType(typeSRQ).WithQpPage(uint32(d.config.Page)))
	e.SetDomain(regs.QpDomain(0).WithQpPd(pd))
	e.SetRings(regs.QpRings(0).WithRqLog2(s.rq.log2).WithRqEntryLog2(s.rq.entryLog2))
	e.SetRqBase(regs.QpRqBase(0).WithRqAddress(s.rq.base))
	e.SetEvents(^regs.QpEvents(0))
	return s, s.SetLimit(0)
}

// Number is the element of block qp.
func (s *SRQ) Number() uint32 { return uint32(s.num) }

func (s *SRQ) context() regs.Qp { return regs.QpOf(s.d.card, int(s.num)) }

func (s *SRQ) modify(to verbs.State) error {
	s.context().SetModify(command(to, 0))
	refused := s.context().Status().Refused()
	if err := s.d.card.Err(); err != nil {
		return err
	}
	if refused {
		return fmt.Errorf("card: shared receive queue %d to %s: %w", s.num, to, errRefused)
	}
	return nil
}

// PostRecv puts a work request on the queue.
func (s *SRQ) PostRecv(wr *verbs.RecvWR) error { return s.rq.postRecv(s.d, s.num, wr) }

// SetLimit requests one event limit_reached, for when fewer than n work requests are left.
func (s *SRQ) SetLimit(n int) error {
	if n < 0 || n >= 1<<16 {
		return fmt.Errorf("card: a limit of %d work requests: use 0 to %d", n, 1<<16-1)
	}
	s.context().SetShared(regs.QpShared(0).WithSrqLimit(uint32(n)))
	return s.modify(verbs.StateInit)
}

// Events reads and clears what has happened to the queue.
func (s *SRQ) Events() regs.QpEvents {
	e := s.context().Events()
	s.context().SetEvents(e)
	return e
}

// Destroy ends the queue, if no queue pair uses it any more.
func (s *SRQ) Destroy() error {
	if err := s.modify(verbs.StateReset); err != nil {
		return fmt.Errorf("%w: %w by queue pairs?", err, verbs.ErrBusy)
	}
	s.d.give(&s.d.qps, s.num, 1)
	s.rq.free(s.d)
	return nil
}
