// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// ringUser is a queue whose rings are in memory that the server has mapped too.
type ringUser interface {
	detach() []byte // takes the memory from the queue; nil if it has none
	attach([]byte)  // gives it back
	unmap()
}

// destroy ends a queue that is in all, with a message of type t. It reports false if the queue has no memory:
// another call has destroyed it, or does.
func destroy[Q ringUser](d *Device, all map[uint32]Q, q Q, handle uint32, t proto.Type) (bool, error) {
	x, ok := take(d, all, q, handle)
	if !ok {
		return false, nil
	}
	err := d.end(t, handle)
	x.end(err == nil)
	return true, err
}

// taken is a queue that is being destroyed.
//
// The server may give memory and handle of the queue to another one before its reply has arrived. So the queue
// leaves both before the message, and has them again if the server refuses.
type taken struct {
	memory []byte
	back   func()
}

func take[Q ringUser](d *Device, all map[uint32]Q, q Q, handle uint32) (taken, bool) {
	memory := q.detach()
	if memory == nil {
		return taken{}, false
	}
	d.mu.Lock()
	delete(all, handle)
	d.mu.Unlock()
	return taken{memory, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		q.attach(memory)
		if d.closed.Load() { // Close may have unmapped the others already
			q.unmap()
		} else {
			all[handle] = q
		}
	}}, true
}

// end is called with the server's answer.
func (x taken) end(destroyed bool) {
	if destroyed {
		_ = unix.Munmap(x.memory)
	} else {
		x.back()
	}
}

// DestroyPair destroys a queue pair, and then its completion queue. After an error, the one that the server has
// refused is still there, and what comes after it.
func (d *Device) DestroyPair(qp verbs.QP, cq verbs.CQ) error {
	q, ok1 := qp.(*QP)
	c, ok2 := cq.(*CQ)
	if !ok1 || !ok2 || q.pd.d != d || c.d != d {
		return errForeign
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	rings, ok := take(d, d.qps, q, q.handle)
	if !ok {
		return errors.Join(errDestroyed, c.destroy())
	}
	completions, ok := take(d, d.cqs, c, c.handle)
	if !ok {
		rings.back()
		return errCQDestroyed
	}
	fds, done, err := d.batch(
		proto.Part{Type: proto.TDestroyQP, Request: &proto.Handle{Handle: q.handle}},
		proto.Part{Type: proto.TDestroyCQ, Request: &proto.Handle{Handle: c.handle}},
	)
	proto.CloseFDs(fds)
	rings.end(done > 0)
	completions.end(done > 1)
	if done > 1 {
		close(c.gone)
	}
	return err
}
