// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/softroce/softroce-xdp/rocev2/nic/internal/loop"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// What arms a completion queue.
const (
	notArmed uint32 = iota
	armedSolicited
	armedAny
)

// CreateCQ makes a completion queue for at least depth completions. One more,
// with none polled, is an overrun: an EventCQError, and its queue pairs go to
// ERR (IBTA 10.8.4).
func (d *Device) CreateCQ(depth int) (verbs.CQ, error) {
	c, err := d.createCQ(depth)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (d *Device) createCQ(depth int) (*CQ, error) {
	if err := checkDepth(depth); err != nil {
		return nil, err
	}
	if err := d.alive(); err != nil {
		return nil, err
	}
	c := &CQ{dev: d, depth: uint32(depth), notify: make(chan struct{}, 1), gone: make(chan struct{}), fd: -1}
	c.ring, c.mask = newCQRing(depth)
	return c, nil
}

// checkDepth refuses a depth that a completion queue cannot have.
func checkDepth(depth int) error {
	if depth < 1 || depth > MaxCQ {
		return fmt.Errorf("nic: a completion queue of %d; choose 1 to %d", depth, MaxCQ)
	}
	return nil
}

// newCQRing returns the ring of a completion queue, whose length is a power of two, and its length less one.
func newCQRing(depth int) (ring []verbs.Completion, mask uint32) {
	ring = make([]verbs.Completion, 1<<bits.Len32(uint32(depth-1)))
	return ring, uint32(len(ring)) - 1
}

// Depth is how many completions it holds.
func (c *CQ) Depth() int {
	c.polling.Lock() // which Resize holds
	defer c.polling.Unlock()
	return int(c.depth)
}

// Destroy ends the queue. It must have no queue pairs. Who waits for it returns.
func (c *CQ) Destroy() error {
	n, first := c.users.end()
	if n > 0 {
		return fmt.Errorf("nic: completion queue: %w: %d queue pairs complete to it", verbs.ErrBusy, n)
	}
	if first {
		close(c.gone)
	}
	return nil
}

var errCQDestroyed = fmt.Errorf("nic: the completion queue %w", verbs.ErrDestroyed)

// Poll moves up to len(out) completions to out and returns how many. It never
// blocks and never allocates. If there is none it has the engine look for one, in
// the caller's thread (loop_owner.go).
func (c *CQ) Poll(out []verbs.Completion) int {
	n := c.take(out)
	if n == 0 && len(out) > 0 && c.dev.eng.driver.PollOnce() {
		n = c.take(out)
	}
	return n
}

func (c *CQ) take(out []verbs.Completion) int {
	if c.Len() == 0 {
		return 0
	}
	c.polling.Lock()
	head := c.head.Load()
	n := min(c.tail.Load()-head, uint32(len(out)))
	for i := range n {
		out[i] = c.ring[(head+i)&c.mask]
	}
	c.head.Store(head + n)
	c.polling.Unlock()
	return int(n)
}

// Len is the number of completions to be polled.
func (c *CQ) Len() int { return int(c.tail.Load() - c.head.Load()) }

// RequestNotify arms the queue: the next completion, or the next that is solicited
// or an error, signals Notify and the eventfd, once (IBTA 11.4.2.2). Completions that
// are there already do not: poll after arming.
func (c *CQ) RequestNotify(solicitedOnly bool) {
	want := armedAny
	if solicitedOnly {
		want = armedSolicited
	}
	for {
		now := c.armed.Load()
		if now >= want || c.armed.CompareAndSwap(now, want) {
			return
		}
	}
}

// Notify is signalled once after RequestNotify.
func (c *CQ) Notify() <-chan struct{} { return c.notify }

// SetEventFD has an eventfd written to whenever Notify is signalled; -1 for none. The
// caller keeps it open until it set another; when that returns, nothing writes to the
// first any more.
func (c *CQ) SetEventFD(fd int) {
	c.fdMu.Lock()
	c.fd = fd
	c.fdMu.Unlock()
}

// Wait returns when there is something to poll: at once if there is, else when the
// next completion comes, or with solicitedOnly the next that is solicited or an
// error. It returns the context's error, ErrDestroyed after Destroy, or ErrClosed
// after the device's end.
func (c *CQ) Wait(ctx context.Context, solicitedOnly bool) error {
	for {
		if c.Len() > 0 || !solicitedOnly && c.dev.eng.pollUntil(ctx, c) {
			return nil
		}
		c.RequestNotify(solicitedOnly)
		if c.Len() > 0 {
			return nil
		}
		select {
		case <-c.notify:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.gone:
			if c.Len() > 0 {
				return nil
			}
			return errCQDestroyed
		case <-c.dev.done:
			if c.Len() > 0 {
				return nil
			}
			return c.dev.alive()
		}
	}
}

// Complete takes a completion from a queue pair. The owner of the loop calls it.
// Applications see it after flushDirty, when the queue pair has room for another work
// request in its place.
func (c *CQ) Complete(w verbs.Completion) {
	e := c.dev.eng
	if w.Status != verbs.StatusSuccess {
		w.Solicited = true // an error is, for RequestNotify and in the entry of a ring
		e.core.ShowFailure(w.QPN)
	}
	if c.sink != nil {
		c.completeTo(w)
		return
	}
	if c.next-c.head.Load() >= c.depth {
		if !c.overrun {
			c.overrun = true
			e.core.Overrun(c)
		}
		return
	}
	c.ring[c.next&c.mask] = w
	c.next++
	c.noteUpdate(w)
}

// noteUpdate has publishCompletions show the completion.
func (c *CQ) noteUpdate(w verbs.Completion) {
	c.alert = c.alert || w.Solicited
	if !c.updated {
		c.updated = true
		e := c.dev.eng
		e.updatedCQs = append(e.updatedCQs, c)
	}
}

// publishCompletions makes completions visible to applications, and signals armed queues.
func (e *runner) publishCompletions() {
	for _, c := range e.updatedCQs {
		alert := c.alert
		c.updated, c.alert = false, false
		if c.sink != nil {
			if !c.sink.Publish(alert) {
				c.overrun = true
				e.core.Overrun(c)
			}
			continue
		}
		c.tail.Store(c.next)
		if armed := c.armed.Load(); armed == armedAny || armed == armedSolicited && alert {
			c.signal()
		}
	}
	clear(e.updatedCQs)
	e.updatedCQs = e.updatedCQs[:0]
}

func (c *CQ) signal() {
	c.armed.Store(notArmed)
	select {
	case c.notify <- struct{}{}:
	default:
	}
	c.fdMu.Lock()
	if c.fd >= 0 {
		loop.Signal(c.fd)
	}
	c.fdMu.Unlock()
}
