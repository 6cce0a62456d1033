// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The end of a connection. Whatever ends it (Close, the peer, a failed operation, the device)
// calls end, which starts drain: the queue pair goes to ERR, and all operations complete. Close
// then disconnects and releases the memory. Queue pair and completion queue are destroyed after
// cm.Gone: until then the QPN belongs to the old connection.

const (
	// graceTime is how long operations wait for answers in flight after the peer has disconnected.
	graceTime = 100 * time.Millisecond
	// drainTime bounds the wait for flushed work requests of a device that does not work.
	drainTime = 5 * time.Second
	// closeTime is how long Close waits for the peer's answer.
	closeTime = time.Second
)

var errNotYet = errors.New("not disconnected")

// event implements handler.
func (c *Conn) event(e cm.Event) {
	switch e.Kind {
	case cm.Reply:
		c.reply <- e
	case cm.Established:
		c.up()
	case cm.Failed:
		select {
		case c.reply <- e:
		default: // Dial has returned
		}
		c.release()
		c.end(e.Err, false)
	case cm.Disconnected:
		c.release() // before end: Close need not disconnect
		if e.Err == nil {
			c.end(ErrPeerClosed, true)
		} else {
			c.end(e.Err, false)
		}
	case cm.Gone:
		c.release()
		c.end(errGivenUp, false) // unless a request that was taken over has missed why
		c.mu.Lock()
		c.isGone = true
		destroy := c.isClosed
		c.mu.Unlock()
		if destroy {
			go func() { _ = c.destroy() }() // the device has ended, or it succeeds
		}
	}
}

// up notes that both ends are connected.
func (c *Conn) up() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isUp {
		c.isUp, c.wasConnected = true, true
		close(c.established)
		c.alive.start(c)
	}
}

func (c *Conn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isReleased {
		c.isReleased = true
		close(c.released)
	}
}

// end ends the connection for a reason, of which the first one counts. It does not block. With
// grace, operations that the peer has answered may complete before.
func (c *Conn) end(err error, grace bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	if !c.isUp {
		c.isUp = true
		close(c.established)
	}
	c.alive.stop()
	close(c.dead)
	go c.drain(grace)
}

// drain brings the queue pair to ERR and polls until all operations have completed. Nothing
// accesses the memory of the connection afterwards.
func (c *Conn) drain(grace bool) {
	defer close(c.drained)
	if grace {
		c.pollWhile(graceTime, func() bool { return c.sends.open.Load() > 0 })
	}
	if c.closing.Load() {
		c.hungUp = hangup(c.host.session, c.id, c.qp)
	} else {
		_ = c.qp.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState) // fails if the device has ended
	}
	// This work request completes at once, so that a Wait for a completion ends.
	_ = c.qp.PostSend(&verbs.SendWR{ID: wakeID, Op: verbs.OpWrite, Flags: verbs.Signaled})
	c.pollWhile(drainTime, func() bool { return c.sends.open.Load() > 0 || c.recvOpen.Load() > 0 })
}

// pollWhile handles completions while a condition holds, for a time. The end of the device ends it.
func (c *Conn) pollWhile(d time.Duration, holds func() bool) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	for holds() {
		select {
		case c.lead <- struct{}{}:
		case <-ctx.Done():
			return
		}
		var err error
		if c.poll() == 0 && holds() {
			err = c.cq.Wait(ctx, false)
		}
		<-c.lead
		if err != nil {
			return
		}
	}
}

// Close disconnects and releases the memory. Operations that have not completed fail, and goroutines
// that wait return with an error that wraps net.ErrClosed. It takes a round trip; one second if the peer
// does not answer. The error wraps ErrNoAnswer if the device does not: it may access the memory until it is released.
func (c *Conn) Close() error {
	if !c.closing.CompareAndSwap(false, true) {
		return wrap("close", c.remote, net.ErrClosed)
	}
	c.end(net.ErrClosed, false)
	return wrap("close", c.remote, Bounded(c.disconnect))
}

// disconnect is the part of Close that waits.
func (c *Conn) disconnect() error {
	<-c.drained
	select {
	case <-c.released:
		return c.closed()
	default:
	}
	if c.hungUp == errNotYet {
		c.hungUp = c.host.session.Disconnect(c.id, nil)
	}
	if c.hungUp == nil { // otherwise it has ended already
		t := time.NewTimer(closeTime)
		select {
		case <-c.released:
		case <-t.C:
		}
		t.Stop()
	}
	return c.closed()
}

// closed releases the memory, and the rest if the QPN is free.
func (c *Conn) closed() error {
	err := c.freeMemory()
	c.mu.Lock()
	c.isClosed = true
	gone := c.isGone
	c.mu.Unlock()
	if gone {
		_ = c.destroy() // without the device there is nothing to destroy
	}
	return err
}
