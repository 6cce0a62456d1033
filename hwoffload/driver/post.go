// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// ring is a queue in card memory that the driver fills. The zero ring has no memory.
type ring struct {
	base               uint64
	log2, entryLog2    uint32
	producer, consumer uint16 // consumer: as it was read last
	entry              []byte // buffer for the next WQE
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
		d.give(&d.free.memory, r.base, 1<<(r.log2+r.entryLog2))
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

// post puts a work request on the send queue and rings the doorbell (S2.2). It fails with
// verbs.ErrQueueFull if the card has not read enough of those before. handle is the entry of the
// address handle, of UD. A work request that the card finds wrong completes with
// StatusLocalQPOperation.
func (q *QP) post(wr *verbs.SendWR, handle uint32) error {
	if err := wqe.EncodeSend(q.sq.entry, q.init.Type, wr, handle); err != nil {
		return err
	}
	if err := q.sq.push(q.d, func() uint32 { return q.context().SqConsumed().SqConsumer() }); err != nil {
		return err
	}
	q.doorbell().SetSq(regs.DoorbellsSq(0).WithSqQueue(uint32(q.num)).WithSqProducer(uint32(q.sq.producer)))
	return q.d.card.Err()
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
