// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Op is an operation that Start has begun.
type Op struct {
	c    *Conn
	name string
	done chan struct{} // closed when comp is set
	comp verbs.Completion

	mu   sync.Mutex
	over chan struct{} // channel of Done; nil before the first call
	to   []byte        // READ: where the slot's buffer is copied to on completion, if somebody still waits
}

// Done returns a channel that is closed when the operation has completed, or the connection has ended
// without its completion (the device is gone): Wait returns at once then. The first call of an operation
// that is outstanding starts a goroutine, which waits until then.
func (o *Op) Done() <-chan struct{} {
	select {
	case <-o.done:
		return o.done
	default:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over == nil {
		o.over = make(chan struct{})
		go func() {
			if _, err := await(context.Background(), o.c, o.done); err == nil && o.comp.Status == verbs.StatusWRFlushed {
				<-o.c.dead // with the reason that Wait returns
			}
			close(o.over)
		}()
	}
	return o.over
}

// Wait returns the completion. It may be called again after its context has ended: the operation
// continues, and its memory stays in use, until it has completed or the connection was closed.
func (o *Op) Wait(ctx context.Context) (verbs.Completion, error) {
	if _, err := await(ctx, o.c, o.done); err != nil {
		return verbs.Completion{Status: verbs.StatusWRFlushed}, wrap(o.name, o.c.remote, err)
	}
	return o.comp, o.err(ctx)
}

// err is the error of a completed operation. A flushed one fails for the reason of the connection, which may have to
// be found out (Conn.failed).
func (o *Op) err(ctx context.Context) error {
	s := o.comp.Status
	if s == verbs.StatusSuccess {
		return nil
	}
	e := &Error{Op: o.name, Peer: o.c.remote, Status: s, Err: statusError{s}}
	if s == verbs.StatusWRFlushed {
		select {
		case <-o.c.dead:
		case <-ctx.Done():
		}
		e.Err = cmp.Or(o.c.Err(), e.Err)
	}
	return e
}

// slot is room for one operation in the send queue.
type slot struct {
	index uint64
	wr    verbs.SendWR
	sge   [1]verbs.SGE // SGE of its buffer
	op    *Op
}

// sends are the operations of a connection.
type sends struct {
	slots  []slot
	idle   chan *slot   // idle slots; the capacity is the number of all slots
	open   atomic.Int32 // operations posted and not completed
	inline int          // bytes that need no buffer
	size   int          // bytes of a slot's buffer
	mem    buffers      // made when the first operation needs one
}

func (s *sends) init(n, size, inline int) {
	s.slots, s.idle, s.size, s.inline = make([]slot, n), make(chan *slot, n), size, inline
	for i := range s.slots {
		s.slots[i].index = uint64(i)
		s.idle <- &s.slots[i]
	}
}

// buffer returns the buffer of a slot, between enter and leave of mem.
func (s *sends) buffer(x *slot) []byte { return s.mem.mem[int(x.index)*s.size:][:s.size] }

// list sets the list of a slot's work request to n bytes of its buffer, between enter and leave.
func (s *sends) list(x *slot, n int) {
	x.sge[0] = verbs.SGE{Addr: s.mem.mr.VA() + x.index*uint64(s.size), Len: uint32(n), LKey: s.mem.mr.LKey()}
	x.wr.SGL = x.sge[:]
}

// completed handles the completion of a slot's operation.
func (s *sends) completed(x *slot, w *verbs.Completion) {
	o := x.op
	x.op = nil
	s.open.Add(-1)
	o.comp = *w
	if w.Status == verbs.StatusSuccess {
		o.finish(x)
	}
	close(o.done)
	s.idle <- x
}

// finish copies what a READ has read.
func (o *Op) finish(x *slot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.to != nil && o.c.sends.mem.enter() {
		copy(o.to, o.c.sends.buffer(x))
		o.c.sends.mem.leave()
	}
}

// leave says that nobody waits any more: the memory that READ copies to is the caller's again.
func (o *Op) leave() {
	o.mu.Lock()
	o.to = nil
	o.mu.Unlock()
}

// ready waits until both ends are connected.
func (c *Conn) ready(ctx context.Context) error {
	select {
	case <-c.established:
	default:
		if err := c.awaitPeer(ctx); err != nil {
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

// awaitPeer waits until the peer is ready. Its first message says so too, so the completion queue is
// polled. No completion says so: a leader in a Wait is woken by its context.
func (c *Conn) awaitPeer(ctx context.Context) error {
	woken, wake := context.WithCancel(ctx)
	defer wake()
	go func() {
		select {
		case <-c.established:
			wake()
		case <-woken.Done():
		}
	}()
	_, err := await(woken, c, c.established)
	select {
	case <-c.established:
		return nil
	default:
		return err
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
func (c *Conn) start(name string, x *slot, to []byte) (*Op, error) {
	o := &Op{c: c, name: name, done: make(chan struct{}), to: to}
	x.op = o
	x.wr.ID = x.index
	x.wr.Flags |= verbs.Signaled
	c.sends.open.Add(1)
	if err := c.qp.PostSend(&x.wr); err != nil {
		c.sends.open.Add(-1)
		x.op = nil
		c.unused(x)
		if errors.Is(err, verbs.ErrSendState) || errors.Is(err, verbs.ErrDestroyed) {
			if end := c.Err(); end != nil {
				err = end
			}
		}
		return nil, err
	}
	return o, nil
}

// unused gives back a slot that was not used. No completion says so: the leader may wait for a slot
// in a Wait for a completion, which an empty WRITE ends.
func (c *Conn) unused(x *slot) {
	c.sends.idle <- x
	_ = c.qp.PostSend(&verbs.SendWR{ID: wakeID, Op: verbs.OpWrite, Flags: verbs.Signaled}) // full: one is outstanding
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
	o, err := c.start("work request", x, nil)
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
