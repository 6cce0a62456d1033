// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// MaxDepth is the most entries of a queue.
const MaxDepth = 1 << maxLog2

const (
	maxLog2 = 15 // of the entries of a ring
	cqeLog2 = 5
)

// newCQ makes a completion queue of the card.
func (d *Device) newCQ(depth int) (*CQ, error) {
	if depth < 1 || depth > 1<<maxLog2 {
		return nil, fmt.Errorf("card: a completion queue of %d entries: use 1 to %d", depth, 1<<maxLog2)
	}
	err := d.require("queue pairs", regs.IdentCapabilities.QueuePairs)
	if err != nil {
		return nil, err
	}
	c := &CQ{d: d, log2: log2(depth), notify: make(chan struct{}, 1), destroyed: make(chan struct{}), fd: -1}
	if c.base, err = d.newRing(c.log2, cqeLog2); err != nil {
		return nil, err
	}
	if c.num, err = d.take(&d.free.cqs, 1, 1); err != nil {
		d.give(&d.free.memory, c.base, c.bytes())
		return nil, err
	}
	e := regs.CqOf(d.card, int(c.num))
	e.SetSize(regs.CqSize(0).WithCqLog2(c.log2))
	e.SetRing(regs.CqRing(0).WithCqAddress(c.base))
	e.SetControl(regs.CqControl(0).WithCqValid(true).WithCqPage(uint32(d.config.Page)))
	return c, d.card.Err()
}

func (c *CQ) bytes() uint64 { return 1 << (c.log2 + cqeLog2) }

// poll moves up to len(out) completions to out and returns how many. The lock of the queue must be
// held, as for all methods that read entries.
func (c *CQ) poll(out []verbs.Completion) int {
	producer := uint16(regs.CqOf(c.d.card, int(c.num)).Produced().Producer())
	if c.d.card.Err() != nil {
		return 0
	}
	n := 0
	var b [wqe.CqeBytes]byte
	for n < len(out) && c.consumer != producer {
		e := c.entry(&b, c.consumer)
		if e == nil {
			break
		}
		out[n] = wqe.DecodeCompletion(b[:])
		n++
		c.consumer++
	}
	if n > 0 {
		c.doorbell().SetCq(regs.DoorbellsCq(0).WithCqQueue(uint32(c.num)).WithCqConsumer(uint32(c.consumer)))
	}
	return n
}

// entry reads an entry, or returns nil (failure says why).
func (c *CQ) entry(b *[wqe.CqeBytes]byte, i uint16) wqe.Cqe {
	at := c.base + uint64(i)%(1<<c.log2)<<cqeLog2
	if _, err := c.d.card.DDR().ReadAt(b[:], int64(at)); err != nil {
		return nil
	}
	e := wqe.Cqe(b[:])
	if e.Owner() != (i>>c.log2%2 == 0) {
		c.broken = fmt.Errorf("card: entry %d of completion queue %d is not of this pass: does another program write to %#x?", i, c.num, at)
		return nil
	}
	return e
}

// hasCompletion reports whether there is a completion to poll, or one that is solicited or an error.
func (c *CQ) hasCompletion(solicitedOnly bool) bool {
	producer := uint16(regs.CqOf(c.d.card, int(c.num)).Produced().Producer())
	if c.d.card.Err() != nil {
		return false
	}
	if !solicitedOnly {
		return c.consumer != producer
	}
	var b [wqe.CqeBytes]byte
	for i := c.consumer; i != producer; i++ {
		e := c.entry(&b, i)
		if e == nil {
			return false
		}
		if e.Solicited() {
			return true
		}
	}
	return false
}

// Overrun reports whether completions were lost because the queue was full.
func (c *CQ) Overrun() bool { return regs.CqOf(c.d.card, int(c.num)).Events().Overrun() }

// Number is the element of block cq.
func (c *CQ) Number() uint32 { return uint32(c.num) }

// Err returns why Poll returns no more completions, or nil: the card failed, the ring had an
// overrun, or another program wrote to it.
func (c *CQ) Err() error {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.failure()
}

// failure implements Err.
func (c *CQ) failure() error {
	switch {
	case c.d.card.Err() != nil:
		return c.d.card.Err()
	case c.broken != nil:
		return c.broken
	case c.Overrun():
		return fmt.Errorf("card: completion queue %d with %d entries had an overrun: create it larger, or poll sooner", c.num, c.Depth())
	}
	return nil
}

// arm has the next completion, or the next that is solicited or an error, cause an interrupt
// (block interrupts). Completions that are there already do not: poll after arming.
func (c *CQ) arm(solicitedOnly bool) {
	c.doorbell().SetArm(regs.DoorbellsArm(0).WithArmQueue(uint32(c.num)).WithArmSolicited(solicitedOnly))
}

func (c *CQ) doorbell() regs.Doorbells { return regs.DoorbellsOf(c.d.card, c.d.config.Page) }

// end ends the queue of the card. Its queue pairs must be destroyed before.
func (c *CQ) end() error {
	e := regs.CqOf(c.d.card, int(c.num))
	e.SetControl(0)
	e.SetEvents(regs.CqEvents(0).WithOverrun(true))
	e.Control() // the card has stopped when this returns
	if err := c.d.card.Err(); err != nil {
		return err
	}
	c.d.give(&c.d.free.cqs, c.num, 1)
	c.d.give(&c.d.free.memory, c.base, c.bytes())
	return nil
}
