// SPDX-License-Identifier: Apache-2.0

package card

import (
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// ring is a queue in the DDR that the driver fills. Indexes run modulo 2^16.
type ring struct {
	base               uint64
	entries            uint32 // a power of two
	entry              uint64 // bytes
	consumer, producer uint16
}

// ringAlign is the alignment of rings in bytes.
const ringAlign = 64

// newRing checks a ring's registers.
func newRing(base uint64, log2, entryLog2 uint32) (ring, bool) {
	r := ring{base: base, entries: 1 << log2, entry: 1 << entryLog2}
	size := uint64(r.entries) * r.entry
	return r, base%ringAlign == 0 && size <= hwoffload.DDRBytes && base <= hwoffload.DDRBytes-size
}

// advance takes a new producer index, if it is neither before the present one nor beyond the ring.
func (r *ring) advance(producer uint16) bool {
	n := producer - r.consumer
	if uint32(n) > r.entries || n < r.producer-r.consumer {
		return false
	}
	r.producer = producer
	return true
}

// at is the address of entry i.
func (r *ring) at(i uint16) uint64 { return r.base + uint64(uint32(i)%r.entries)*r.entry }

// completionQueue is an element of block cq. It implements qp.CompletionQueue.
type completionQueue struct {
	d         *dataPath
	num       uint32
	page      uint32
	ring      ring // producer is the card's, consumer the driver's
	armed     bool
	solicited bool // armed for solicited completions and errors only
	overrun   bool // completions are dropped: there was an overrun, or the queue was removed
}

// setCQ makes or removes a completion queue when valid of its register control changes. Queue pairs
// of a queue that is removed go to ERR, and nothing writes to its ring any more.
func (d *dataPath) setCQ(i uint32, was, now regs.CqControl) {
	if was.CqValid() == now.CqValid() {
		return
	}
	if !now.CqValid() {
		if q := d.cqs[i]; q != nil {
			q.overrun, d.overruns = true, true
			delete(d.cqs, i)
			d.failOverruns()
		}
		return
	}
	e := regs.CqOf(d.in, int(i))
	r, ok := newRing(e.Ring().CqAddress(), e.Size().CqLog2(), cqeLog2)
	if !ok || r.entries > maxEntries {
		return
	}
	q := &completionQueue{d: d, num: i, page: now.CqPage(), ring: r}
	d.cqs[i] = q
	q.show()
}

const (
	cqeLog2    = 5
	maxEntries = 1 << 15
)

// show writes the registers of the queue's progress.
func (c *completionQueue) show() {
	at := regs.CqBase + uint64(c.num)*regs.CqStride
	c.d.in.W32(at+regs.CqProducedOffset, uint32(c.ring.producer))
	c.d.in.W32(at+regs.CqConsumedOffset, uint32(c.ring.consumer))
	c.d.in.W32(at+regs.CqNotifyOffset, uint32(regs.CqNotify(0).WithArmed(c.armed).WithArmedSolicited(c.solicited)))
}

// Complete implements qp.CompletionQueue: it writes an entry (S2.4).
func (c *completionQueue) Complete(w verbs.Completion) {
	if c.overrun {
		return
	}
	if uint32(c.ring.producer-c.ring.consumer) >= c.ring.entries {
		c.overrun = true
		c.d.overruns = true
		e := regs.CqOf(c.d.in, int(c.num))
		e.SetEvents(e.Events().WithOverrun(true))
		c.d.raise(regs.InterruptsCauses(0).WithCqOverrun(true))
		return
	}
	if w.Status != verbs.StatusSuccess {
		c.d.net.core.ShowFailure(w.QPN) // who sees the completion finds the queue pair in the state of the failure
	}
	var b [wqe.CqeBytes]byte
	wqe.EncodeCompletion(b[:], &w)
	pass := uint32(c.ring.producer) / c.ring.entries
	wqe.Cqe(b[:]).SetOwner(pass%2 == 0)
	_ = c.d.ddr.WriteAt(b[:], c.ring.at(c.ring.producer)) // newRing has checked the range
	c.ring.producer++
	if c.armed && (!c.solicited || w.Solicited || w.Status != verbs.StatusSuccess) {
		c.armed = false
		c.d.in.setBit(regs.InterruptsBase+regs.InterruptsCqReadyOffset, c.num)
		c.d.raise(regs.InterruptsCauses(0).WithCompletion(true))
	}
	c.show()
}

// raise sets causes of an interrupt.
func (d *dataPath) raise(c regs.InterruptsCauses) {
	i := regs.InterruptsOf(d.in)
	i.SetCauses(i.Causes() | c)
	if d.line() {
		signal(d.m.interrupt)
	}
}

// line reports whether the interrupt line is active.
func (d *dataPath) line() bool {
	i := regs.InterruptsOf(d.in)
	return uint32(i.Causes())&uint32(i.Mask()) != 0
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
