// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// recvRing holds receive work requests in order. It grows with use, so that an idle queue
// pair needs little memory.
type recvRing struct {
	n, head uint32
	max     uint32
	stride  uint32
	wqe     []recvWQE   // a power of two long
	sge     []verbs.SGE // stride a work request
}

type recvWQE struct {
	id  uint64
	sge uint32 // used of its stride
}

// recvRingMin is the smallest length of an allocated ring.
const recvRingMin = 4

func newRecvRing(maxWR, maxSGE int) recvRing {
	return recvRing{max: uint32(max(maxWR, 0)), stride: uint32(max(maxSGE, 0))}
}

func (r *recvRing) push(wr *verbs.RecvWR) error {
	if err := r.check(wr); err != nil {
		return err
	}
	if r.n == r.max {
		return verbs.ErrQueueFull
	}
	if int(r.n) == len(r.wqe) {
		r.grow()
	}
	i := (r.head + r.n) & uint32(len(r.wqe)-1)
	r.wqe[i] = recvWQE{id: wr.ID, sge: uint32(copy(r.sge[i*r.stride:], wr.SGL))}
	r.n++
	return nil
}

func (r *recvRing) check(wr *verbs.RecvWR) error {
	if len(wr.SGL) > int(r.stride) {
		return fmt.Errorf("%w: %d of %d", verbs.ErrSGL, len(wr.SGL), r.stride)
	}
	return nil
}

func (r *recvRing) grow() {
	size := max(recvRingMin, 2*len(r.wqe))
	wqe, sge := make([]recvWQE, size), make([]verbs.SGE, size*int(r.stride))
	for i := range r.n {
		from := (r.head + i) & uint32(len(r.wqe)-1)
		wqe[i] = r.wqe[from]
		copy(sge[i*r.stride:(i+1)*r.stride], r.sge[from*r.stride:])
	}
	r.wqe, r.sge, r.head = wqe, sge, 0
}

// pop moves the oldest work request to b. It returns false if there is none.
func (r *recvRing) pop(b *recvBuffer) bool {
	if r.n == 0 {
		return false
	}
	w, sge := &r.wqe[r.head], r.sge[r.head*r.stride:]
	b.id = w.id
	b.sgl = append(b.sgl[:0], sge[:w.sge]...)
	b.rewind()
	b.taken = true
	r.head = (r.head + 1) & uint32(len(r.wqe)-1)
	r.n--
	return true
}

// recvBuffer is the receive work request of the message in progress.
type recvBuffer struct {
	id    uint64
	sgl   []verbs.SGE
	room  uint64 // remaining bytes of the list
	off   uint32 // offset in sgl[at]
	at    int32
	taken bool
}

// rewind sets the buffer back to its start.
func (b *recvBuffer) rewind() {
	b.at, b.off, b.room = 0, 0, 0
	for i := range b.sgl {
		b.room += uint64(b.sgl[i].Len)
	}
}

// scatter writes data after the bytes already in the buffer, which has room for it. All
// elements are checked before the first is written.
func (b *recvBuffer) scatter(m mem.Memory, pd uint32, data []byte) mem.Fault {
	if len(data) == 0 {
		return mem.FaultNone
	}
	at, off := b.at, b.off
	for n := uint32(len(data)); ; {
		for off == b.sgl[at].Len {
			at, off = at+1, 0
		}
		e := &b.sgl[at]
		if n <= e.Len-off && at == b.at {
			break // all in one element: WriteLocal checks
		}
		step := min(n, e.Len-off)
		if f := m.CheckLocal(pd, e.LKey, e.Addr+uint64(off), step, verbs.AccessLocalWrite); f != mem.FaultNone {
			return f
		}
		if n -= step; n == 0 {
			break
		}
		off += step
	}
	for {
		for b.off == b.sgl[b.at].Len {
			b.at, b.off = b.at+1, 0
		}
		e := &b.sgl[b.at]
		step := min(len(data), int(e.Len-b.off))
		if f := m.WriteLocal(pd, e.LKey, e.Addr+uint64(b.off), data[:step]); f != mem.FaultNone {
			return f
		}
		b.off += uint32(step)
		b.room -= uint64(step)
		if data = data[step:]; len(data) == 0 {
			return mem.FaultNone
		}
	}
}

// RecvQueued returns the number of work requests on the queue pair's own receive queue.
func (q *QP) RecvQueued() int { return int(q.rsp.ring.n) }

// post implements PostRecv.
func (r *responder) post(wr *verbs.RecvWR) error {
	c := &r.q.cfg
	if err := verbs.CheckRecv(wr, verbs.RecvRules{State: r.q.state, SRQ: c.SRQ != nil, MaxSGE: c.MaxRecvSGE}); err != nil {
		return err
	}
	if r.q.state == verbs.StateErr {
		r.flushed(wr.ID)
		return nil
	}
	return r.ring.push(wr)
}

// takeReceive moves the next receive work request, of the SRQ or the own queue, to r.buf.
// It returns false if none is posted. A buffer of an unfinished message of UC is used
// again (class D1, IBTA 9.9.3).
func (r *responder) takeReceive() bool {
	switch {
	case r.buf.taken:
		r.buf.rewind()
		return true
	case r.popReceive():
		return true
	case r.q.cfg.Receives == nil:
		return false
	}
	r.q.cfg.Receives()
	return r.popReceive()
}

func (r *responder) popReceive() bool {
	if r.q.cfg.SRQ != nil {
		return r.q.cfg.SRQ.pop(&r.buf)
	}
	return r.ring.pop(&r.buf)
}

// recvPD returns the protection domain of the buffers: an SRQ has its own (IBTA 10.2.9).
func (r *responder) recvPD() uint32 {
	if s := r.q.cfg.SRQ; s != nil {
		return s.cfg.PD
	}
	return r.q.cfg.PD
}

// completeError completes the work request in r.buf with a status.
func (r *responder) completeError(st verbs.Status) {
	r.buf.taken = false
	r.q.cfg.RecvCQ.Complete(verbs.Completion{WRID: r.buf.id, QPN: r.q.cfg.QPN, Status: st, Op: verbs.OpRecv, Solicited: true})
}

func (r *responder) flushed(id uint64) {
	r.q.cfg.Count.Flushed++
	r.q.cfg.RecvCQ.Complete(verbs.Completion{WRID: id, QPN: r.q.cfg.QPN, Status: verbs.StatusWRFlushed, Op: verbs.OpRecv, Solicited: true})
}

// flush completes every receive work request as flushed, in order. Work requests of an SRQ
// stay there for other queue pairs (IBTA 10.2.9). EventQPLastWQE reports that this queue
// pair takes no more of them.
func (r *responder) flush(now Time) {
	r.message = message{}
	r.dropBuffered()
	if r.buf.taken {
		r.buf.taken = false
		r.flushed(r.buf.id)
	}
	for r.ring.pop(&r.buf) {
		r.buf.taken = false
		r.flushed(r.buf.id)
	}
	if r.q.cfg.SRQ != nil {
		r.q.notify(verbs.EventQPLastWQE)
	}
}
