// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"cmp"
	"context"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Waiting. Goroutines that wait for something of a connection share its completion queue. One of
// them, the leader, polls and waits for completions, and hands out what it finds through channels.
// The others wait for their channel, or become the leader when it leaves. lead is full while there
// is a leader.

// Work request IDs: the index of a slot or of a receive buffer, with these bits and numbers.
const (
	recvBit = 1 << 32
	wakeID  = 1 << 33
	aliveID = 1<<33 + 1
)

// await returns what ch has, or is closed with. Otherwise it returns the error of ctx or of the
// connection. After the end of the connection, ch is looked at when all operations have completed.
func await[T any](ctx context.Context, c *Conn, ch <-chan T) (v T, err error) {
	dead, lead := c.dead, c.lead
	for {
		select {
		case v = <-ch:
			return v, nil
		default:
		}
		select {
		case v = <-ch:
			return v, nil
		case <-ctx.Done():
			return v, ctx.Err()
		case <-dead:
			dead, lead = nil, nil // the drain polls now
		case <-c.drained:
			select {
			case v = <-ch:
				return v, nil
			default:
				return v, c.Err()
			}
		case lead <- struct{}{}:
			v, ok, err := leadFor(ctx, c, ch)
			if ok || err != nil {
				return v, err
			}
		}
	}
}

// leadFor is await for the leader. Without result and error, the connection has ended.
func leadFor[T any](ctx context.Context, c *Conn, ch <-chan T) (v T, ok bool, err error) {
	defer func() { <-c.lead }()
	for {
		select {
		case v = <-ch:
			return v, true, nil
		case <-c.dead:
			return v, false, nil
		default:
		}
		if c.poll() > 0 {
			continue
		}
		if err := c.cq.Wait(ctx, false); err != nil {
			if ctx.Err() != nil {
				return v, false, ctx.Err()
			}
			c.end(err, false) // the device has ended
		}
	}
}

// poll handles the completions that are there and returns how many. Only the leader calls it.
func (c *Conn) poll() int {
	n := c.cq.Poll(c.comps[:])
	for i := range n {
		c.completed(&c.comps[i])
	}
	if n > 0 {
		c.alive.active.Store(true)
	}
	return n
}

// completed handles a completion.
func (c *Conn) completed(w *verbs.Completion) {
	if w.Status != verbs.StatusSuccess {
		c.failed(w.Status)
	}
	switch {
	case w.WRID == wakeID:
	case w.WRID == aliveID:
		c.alive.asked.Store(false)
	case w.WRID&recvBit != 0:
		c.recvOpen.Add(-1)
		if w.Status == verbs.StatusSuccess {
			c.arrived(c.recvs[w.WRID&^recvBit], w)
		}
	default:
		c.sends.completed(&c.sends.slots[w.WRID], w)
	}
}

// failed ends the connection because of a failed work request. After end it does nothing.
func (c *Conn) failed(s verbs.Status) {
	select {
	case <-c.dead:
		return
	default:
	}
	if s != verbs.StatusWRFlushed {
		c.end(statusError{s}, false)
		return
	}
	// The queue pair has failed without a completion that says why: the device has ended, or the peer's request was
	// refused. The device is not waited for here, since others wait for this goroutine.
	if c.flushed.CompareAndSwap(false, true) {
		go func() {
			_, ended := c.host.dev.Port()
			c.end(cmp.Or(ended, error(statusError{s})), false)
		}()
	}
}

// arrived puts a message into the inbox, which has room for all.
func (c *Conn) arrived(m *Message, w *verbs.Completion) {
	m.kind, m.n, m.imm, m.hasImm = KindSend, int(w.Bytes), w.Imm, w.HasImm
	if w.Op != verbs.OpRecv {
		m.kind = KindWrite
	}
	select {
	case <-c.established:
	default:
		// The peer is ready, even if the message that says so was lost.
		go func() { _ = c.host.session.Arrived(c.id) }()
	}
	c.inbox <- m
}
