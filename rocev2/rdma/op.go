// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Op is an operation that Start has begun.
type Op struct {
	c    *Conn
	slot *slot
	name string
	done chan struct{} // closed when comp is set
	comp verbs.Completion
	keep atomic.Int32 // of an operation that uses the slot's buffer after its completion
}

// The states of Op.keep.
const (
	slotFree    int32 = iota // the completion frees the slot
	slotKept                 // the waiting goroutine frees the slot
	slotUsed                 // it completed, and the waiting goroutine frees the slot
	slotDropped              // the waiting goroutine has left: the completion frees the slot
)

// Done is closed when the operation has completed. Completions are only noticed while some
// goroutine waits in a method of the connection or in Wait.
func (o *Op) Done() <-chan struct{} { return o.done }

// Wait returns the completion. It may be called again after its context has ended: the operation
// continues, and its memory stays in use, until it has completed or the connection was closed.
func (o *Op) Wait(ctx context.Context) (verbs.Completion, error) {
	if _, err := await(ctx, o.c, o.done); err != nil {
		return verbs.Completion{Status: verbs.StatusWRFlushed}, wrap(o.name, o.c.remote, err)
	}
	return o.comp, o.err()
}

// err is the error of a completed operation. A flushed one fails for the reason of the connection.
func (o *Op) err() error {
	s := o.comp.Status
	if s == verbs.StatusSuccess {
		return nil
	}
	e := &Error{Op: o.name, Peer: o.c.remote, Status: s, Err: statusError{s}}
	if s == verbs.StatusWRFlushed {
		if err := o.c.Err(); err != nil {
			e.Err = err
		}
	}
	return e
}

// slot is room for one operation in the send queue.
type slot struct {
	index uint64
	wr    verbs.SendWR
	sge   [1]verbs.SGE // of the buffer
	buf   []byte       // nil until the buffers are made
	op    *Op
}

// sends are the operations of a connection.
type sends struct {
	slots  []slot
	idle   chan *slot   // has room for all
	open   atomic.Int32 // operations posted and not completed
	inline int          // bytes that need no buffer

	mu  sync.Mutex
	mr  verbs.MR // of the buffers, nil until the first operation that needs one
	end bool
}

func (s *sends) init(n, inline int) {
	s.slots, s.idle, s.inline = make([]slot, n), make(chan *slot, n), inline
	for i := range s.slots {
		s.slots[i].index = uint64(i)
		s.idle <- &s.slots[i]
	}
}

// buffers makes a buffer for each slot, once.
func (s *sends) buffers(pd verbs.PD, size int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mr != nil || s.end {
		return nil
	}
	mem := make([]byte, len(s.slots)*size)
	mr, err := pd.RegMR(mem, verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	for i := range s.slots {
		x := &s.slots[i]
		x.buf = mem[i*size:][:size:size]
		x.sge[0] = verbs.SGE{Addr: mr.VA() + uint64(i*size), LKey: mr.LKey()}
	}
	s.mr = mr
	return nil
}

func (s *sends) free() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = true
	if s.mr == nil {
		return nil
	}
	err := s.mr.Deregister()
	s.mr = nil
	return err
}

// completed handles the completion of a slot's operation.
func (s *sends) completed(x *slot, w *verbs.Completion) {
	o := x.op
	x.op = nil
	s.open.Add(-1)
	o.comp = *w
	kept := o.keep.CompareAndSwap(slotKept, slotUsed)
	close(o.done)
	if !kept {
		s.idle <- x
	}
}

// release gives back the slot of an operation that kept it, or lets its completion do so.
func (o *Op) release() {
	if !o.keep.CompareAndSwap(slotKept, slotDropped) {
		o.c.sends.idle <- o.slot
	}
}

// ready waits until both ends are connected.
func (c *Conn) ready(ctx context.Context) error {
	select {
	case <-c.established:
	default:
		// A message of the peer also says that it is ready, so the queue is polled.
		if _, err := await(ctx, c, c.established); err != nil {
			return err
		}
	}
	select {
	case <-c.dead:
		return c.Err()
	default:
		return nil
	}
}

// takeSlot waits for room in the send queue.
func (c *Conn) takeSlot(ctx context.Context) (*slot, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	return await(ctx, c, c.sends.idle)
}

// start posts the work request of a slot.
func (c *Conn) start(name string, x *slot, keep int32) (*Op, error) {
	o := &Op{c: c, slot: x, name: name, done: make(chan struct{})}
	o.keep.Store(keep)
	x.op = o
	x.wr.ID = x.index
	x.wr.Flags |= verbs.Signaled
	c.sends.open.Add(1)
	if err := c.qp.PostSend(&x.wr); err != nil {
		c.sends.open.Add(-1)
		x.op = nil
		c.sends.idle <- x
		if errors.Is(err, verbs.ErrSendState) || errors.Is(err, verbs.ErrDestroyed) {
			if end := c.Err(); end != nil {
				err = end
			}
		}
		return nil, err
	}
	return o, nil
}

// Start posts a work request and does not wait for its completion: SEND, WRITE, READ, ATOMIC or
// bind, with memory of the caller's own regions in wr.SGL or with inline data. It waits while the
// send queue is full. ID is ignored, and Signaled is set. The memory is in use until the operation has
// completed.
func (c *Conn) Start(ctx context.Context, wr *verbs.SendWR) (*Op, error) {
	x, err := c.takeSlot(ctx)
	if err != nil {
		return nil, wrap("post", c.remote, err)
	}
	x.wr = *wr
	o, err := c.start("work request", x, slotFree)
	return o, wrap("post", c.remote, err)
}

// Do is Start and Wait. If ctx ends before the operation has completed, its memory stays in use:
// use Start for an operation that is to be waited for again.
func (c *Conn) Do(ctx context.Context, wr *verbs.SendWR) (verbs.Completion, error) {
	o, err := c.Start(ctx, wr)
	if err != nil {
		return verbs.Completion{}, err
	}
	return o.Wait(ctx)
}
