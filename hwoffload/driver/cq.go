// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// CQ is a completion queue of a card (S2.4).
type CQ struct {
	d         *Device
	num       uint64
	base      uint64
	log2      uint32
	uses      int // queue pairs
	overrun   bool
	notify    chan struct{}
	destroyed chan struct{}

	lock      sync.Mutex // guards what follows
	consumer  uint16
	broken    error // reason why no entry can be read any more, or nil
	armed     bool
	solicited bool // armed for solicited completions and errors only
	fd        int
}

var _ verbs.CQ = (*CQ)(nil)

// CreateCQ implements verbs.Device. It makes a completion queue for at least depth completions. One
// more, with none polled, is an overrun: the queue pairs of the queue go to ERR.
func (d *Device) CreateCQ(depth int) (verbs.CQ, error) {
	if err := d.err(); err != nil {
		return nil, err
	}
	c, err := d.newCQ(depth)
	if err != nil {
		return nil, err
	}
	if err := d.add(c); err != nil {
		return nil, firstOf(err, c.end())
	}
	register(d, d.cqs, c.Number(), c)
	return c, nil
}

// register has find return an object by its number; unregister ends that.
func register[T any](d *Device, all map[uint32]*T, n uint32, o *T) {
	d.lock.Lock()
	defer d.lock.Unlock()
	all[n] = o
}

func unregister[T any](d *Device, all map[uint32]*T, n uint32) {
	d.lock.Lock()
	defer d.lock.Unlock()
	delete(all, n)
}

// Depth implements verbs.CQ.
func (c *CQ) Depth() int { return 1 << c.log2 }

// Poll implements verbs.CQ.
func (c *CQ) Poll(out []verbs.Completion) int {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.err() != nil {
		return 0
	}
	return c.poll(out)
}

// err returns why the queue is of no use, or nil.
func (c *CQ) err() error {
	if err := c.d.err(); err != nil {
		return err
	}
	select {
	case <-c.destroyed:
		return fmt.Errorf("card: the completion queue %w", verbs.ErrDestroyed)
	default:
		return nil
	}
}

// Times between two polls of Wait.
const (
	shortPause = 20 * time.Microsecond
	longPause  = time.Millisecond
)

// Wait implements verbs.CQ. It polls.
func (c *CQ) Wait(ctx context.Context, solicitedOnly bool) error {
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if ready, err := c.ready(solicitedOnly); ready || err != nil {
			return err
		}
		timer.Reset(min(longPause, shortPause+time.Since(began)/16))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.destroyed:
		case <-c.d.closed:
		}
	}
}

// ready reports whether there is a completion for Wait.
func (c *CQ) ready(solicitedOnly bool) (bool, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.err(); err != nil {
		return false, err
	}
	if c.hasCompletion(solicitedOnly) {
		return true, nil
	}
	return false, c.failure()
}

// RequestNotify implements verbs.CQ.
func (c *CQ) RequestNotify(solicitedOnly bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.err() != nil || c.armed && !c.solicited { // what is armed for any stays so (IBTA 11.4.2.2)
		return
	}
	c.armed, c.solicited = true, solicitedOnly
	c.arm(solicitedOnly)
}

// Notify implements verbs.CQ.
func (c *CQ) Notify() <-chan struct{} { return c.notify }

// SetEventFD implements verbs.CQ.
func (c *CQ) SetEventFD(fd int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.fd = fd
}

// signal handles the interrupt of the queue.
func (c *CQ) signal() {
	c.lock.Lock()
	defer c.lock.Unlock()
	if !c.armed {
		return
	}
	c.armed = false
	select {
	case c.notify <- struct{}{}:
	default:
	}
	if c.fd >= 0 {
		_, _ = unix.Write(c.fd, binary.NativeEndian.AppendUint64(nil, 1)) // a full eventfd is signalled already
	}
}

// Destroy implements verbs.CQ.
func (c *CQ) Destroy() error {
	if err := c.d.remove(c, "completion queue", &c.uses); err != nil {
		return err
	}
	return c.close()
}

func (c *CQ) order() int { return orderCQ }

func (c *CQ) close() error {
	unregister(c.d, c.d.cqs, c.Number())
	close(c.destroyed)
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.end()
}

// The order in which Close ends objects.
const (
	orderTasks = iota
	orderAH
	orderQP
	orderSRQ
	orderMW
	orderMR
	orderCQ
	orderPD
)

// firstOf returns the first of two errors that is not nil.
func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
