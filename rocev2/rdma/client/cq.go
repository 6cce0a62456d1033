// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// CQ is a completion queue. It implements verbs.CQ.
type CQ struct {
	d      *Device
	handle uint32
	depth  int

	mu     sync.Mutex
	memory []byte // nil from Destroy on
	in     *ring.CompletionConsumer

	changing sync.Mutex // held by Resize and Destroy

	gone    chan struct{} // closed by Destroy
	notify  chan struct{}
	signals uint32 // number of signals when the server last signalled; readSignals'
	spins   spinning
	fdMu    sync.Mutex
	fd      int // eventfd of the application, or -1
}

var _ verbs.CQ = (*CQ)(nil)

// CreateCQ implements verbs.Device.
func (d *Device) CreateCQ(depth int) (verbs.CQ, error) {
	if err := d.checkDepth(depth); err != nil {
		return nil, err
	}
	var r proto.CreateCQReply
	b, err := d.mapReply(proto.TCreateCQ, &proto.CreateCQ{Depth: uint32(depth)}, &r, func() (uint32, int) { return placeOfCQ(&r) })
	if err != nil {
		return nil, err
	}
	c, err := d.newCQ(depth, &r, b)
	if err != nil {
		return nil, err // not c: an interface that holds a nil *CQ is not nil
	}
	return c, nil
}

func (d *Device) checkDepth(depth int) error {
	if depth < 1 || depth > ring.MaxEntries { // the server names a limit of the process
		return fmt.Errorf("a completion queue of %d; choose 1 to %d", depth, d.limits.CQ)
	}
	return nil
}

// placeOfCQ is where the ring of a completion queue is in its file, and its bytes.
func placeOfCQ(r *proto.CreateCQReply) (offset uint32, n int) {
	return r.Offset, ring.Shape(r.Ring).Bytes()
}

// newCQ is the completion queue of a reply, whose ring is in b. After an error the server has it no more.
func (d *Device) newCQ(depth int, r *proto.CreateCQReply, b []byte) (*CQ, error) {
	c := &CQ{d: d, handle: r.Handle, depth: depth, memory: b, gone: make(chan struct{}), notify: make(chan struct{}, 1), fd: -1}
	m, err := openCompletions(b, r)
	if err != nil {
		c.unmap()
		return nil, errors.Join(err, d.undo(r))
	}
	c.in = ring.NewCompletionConsumer(m)
	d.mu.Lock()
	d.cqs[c.handle] = c
	d.mu.Unlock()
	return c, nil
}

// openCompletions opens the ring of a reply, which is in b.
func openCompletions(b []byte, r *proto.CreateCQReply) (ring.Ring, error) {
	m, err := ring.Open(b, ring.Shape(r.Ring))
	if err == nil && r.Ring.EntryBytes < wqe.CqeBytes {
		err = fmt.Errorf("%w: completions of %d bytes", proto.ErrProtocol, r.Ring.EntryBytes)
	}
	return m, err
}

// Depth implements verbs.CQ.
func (c *CQ) Depth() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.depth
}

// Poll implements verbs.CQ.
func (c *CQ) Poll(out []verbs.Completion) int {
	c.mu.Lock()
	n := 0
	if c.memory != nil {
		n = c.take(out)
	}
	c.mu.Unlock()
	return n
}

func (c *CQ) take(out []verbs.Completion) (n int) {
	var entry [wqe.CqeBytes]byte
	for n < len(out) && c.in.Ready() {
		c.in.Copy(entry[:])
		out[n] = wqe.DecodeCompletion(entry[:])
		n++
	}
	if n > 0 {
		c.in.Free()
		c.d.posts.Load()
	}
	return n
}

// ready reports whether there is something to poll.
func (c *CQ) ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory != nil && c.in.Ready()
}

// RequestNotify implements verbs.CQ.
func (c *CQ) RequestNotify(solicitedOnly bool) {
	what := uint32(ring.ArmedAny)
	if solicitedOnly {
		what = ring.ArmedSolicited
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.memory != nil {
		c.in.Arm(what)
	}
}

// Notify implements verbs.CQ.
func (c *CQ) Notify() <-chan struct{} { return c.notify }

// SetEventFD implements verbs.CQ.
func (c *CQ) SetEventFD(fd int) {
	c.fdMu.Lock()
	c.fd = fd
	c.fdMu.Unlock()
}

// Wait implements verbs.CQ.
func (c *CQ) Wait(ctx context.Context, solicitedOnly bool) error {
	if c.ready() || !solicitedOnly && c.spin(ctx) {
		return nil
	}
	for {
		c.RequestNotify(solicitedOnly)
		if c.ready() {
			return nil
		}
		select {
		case <-c.notify:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.gone:
			return errCQDestroyed
		case <-c.d.dead:
			if c.ready() {
				return nil
			}
			return c.d.alive()
		}
		if c.ready() {
			return nil
		}
	}
}

// spin polls for Config.Spin, unless that has found nothing in the latest waits.
func (c *CQ) spin(ctx context.Context) bool {
	if !c.spins.worth() {
		return false
	}
	found := c.pollFor(ctx)
	c.spins.note(found)
	return found
}

func (c *CQ) pollFor(ctx context.Context) bool {
	for end := time.Now().Add(c.d.conf.Spin); ctx.Err() == nil; {
		for range 16 {
			if c.ready() {
				return true
			}
		}
		if time.Now().After(end) {
			break
		}
	}
	return false
}

// signal passes on a signal of the server.
func (c *CQ) signal() {
	select {
	case c.notify <- struct{}{}:
	default:
	}
	c.fdMu.Lock()
	if c.fd >= 0 {
		_, _ = unix.Write(c.fd, oneSignal) // fails only at 2^64-2 signals that nobody has read
	}
	c.fdMu.Unlock()
}

// signalled reports whether the server has signalled the queue since the last call.
func (c *CQ) signalled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.memory == nil {
		return false
	}
	now := c.in.State().Load()
	was := c.signals
	c.signals = now
	return now != was
}

// readSignals passes the server's signals to their completion queues.
func (d *Device) readSignals() {
	buf := make([]byte, 4096)
	for {
		if _, err := d.signal.Read(buf); err != nil { // the end of the server, or of this device
			if errors.Is(err, io.EOF) {
				d.regions.dropAll()
			}
			return
		}
		d.mu.Lock()
		for _, c := range d.cqs {
			if c.signalled() {
				c.signal()
			}
		}
		d.mu.Unlock()
	}
}

// Destroy implements verbs.CQ.
func (c *CQ) Destroy() error {
	c.changing.Lock()
	defer c.changing.Unlock()
	return c.destroy()
}

// destroy is Destroy with changing held.
func (c *CQ) destroy() error {
	select {
	case <-c.gone:
		return nil
	default:
	}
	had, err := destroy(c.d, c.d.cqs, c, c.handle, proto.TDestroyCQ)
	switch {
	case !had:
		return errCQDestroyed // by another call, now
	case err == nil:
		close(c.gone)
	}
	return err
}

var errCQDestroyed = fmt.Errorf("the completion queue %w", verbs.ErrDestroyed)

func (c *CQ) detach() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.memory
	c.memory = nil
	return b
}

// attach implements ringUser. Who waits looks again: requests and signals without the memory were lost.
func (c *CQ) attach(b []byte) {
	c.mu.Lock()
	c.memory = b
	c.mu.Unlock()
	c.signal()
}

func (c *CQ) unmap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.memory != nil {
		_ = unix.Munmap(c.memory)
		c.memory = nil
		close(c.gone)
	}
}
