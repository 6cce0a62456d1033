// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var _ verbs.ResizableCQ = (*CQ)(nil)

// Resize implements verbs.ResizableCQ. Poll finds nothing until the server has moved the completions that were not
// polled to the new ring.
func (c *CQ) Resize(depth int) error {
	if err := c.d.checkDepth(depth); err != nil {
		return err
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	old := c.detach()
	if old == nil {
		return errCQDestroyed
	}
	var r proto.CreateCQReply
	fds, err := c.d.call(proto.TResizeCQ, &proto.ResizeCQ{Handle: c.handle, Depth: uint32(depth)}, &r)
	if err != nil {
		c.again(old, nil, 0)
		return err
	}
	defer proto.CloseFDs(fds)
	b, in, err := openResized(fds, &r)
	if err != nil { // the server has the new ring, which this process cannot access
		c.again(old, nil, 0)
		c.d.fail(c.d.ended(err))
		return c.d.alive()
	}
	c.again(b, in, depth)
	return unix.Munmap(old)
}

// openResized maps the ring of a reply.
func openResized(fds []int, r *proto.CreateCQReply) ([]byte, *ring.CompletionConsumer, error) {
	if err := wantFDs(fds, 1); err != nil {
		return nil, nil, err
	}
	offset, n := placeOfCQ(r)
	b, err := mapShared(fds[0], int64(offset), n)
	if err != nil {
		return nil, nil, err
	}
	m, err := openCompletions(b, r)
	if err != nil {
		return nil, nil, errors.Join(err, unix.Munmap(b))
	}
	return b, ring.NewCompletionConsumer(m), nil
}

// again gives the queue its memory back, or other memory with another ring.
func (c *CQ) again(b []byte, in *ring.CompletionConsumer, depth int) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if in != nil {
		c.mu.Lock()
		c.in, c.depth = in, depth
		c.mu.Unlock()
	}
	c.attach(b)
	if c.d.closed.Load() { // Close may have unmapped the others already
		c.unmap()
	}
}
