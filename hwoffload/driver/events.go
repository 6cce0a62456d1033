// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Interrupter is an optional interface of a hwoffload.Device that delivers interrupts.
type Interrupter interface {
	// Interrupt returns a channel that gets a value when the interrupt line becomes active.
	Interrupt() <-chan struct{}
}

const (
	eventsKept = 256
	pollEvery  = 200 * time.Microsecond // of the causes of interrupts
)

// setMask has causes activate the interrupt line, or not.
func (d *Device) setMask(on bool) {
	m := regs.InterruptsMask(0).WithCompletionOn(on).WithQueuePairOn(on).WithCqOverrunOn(on)
	regs.InterruptsOf(d.card).SetMask(m)
}

// run handles interrupts until Close.
func (d *Device) run() {
	var line <-chan struct{}
	var tick <-chan time.Time
	if i, ok := d.card.Device.(Interrupter); ok {
		line = i.Interrupt()
	} else {
		t := time.NewTicker(pollEvery)
		defer t.Stop()
		tick = t.C
	}
	for {
		d.interrupt()
		select {
		case <-d.closed:
			return
		case <-line:
		case <-tick:
		}
	}
}

// interrupt handles what has happened. It clears the causes first, so that nothing is missed.
func (d *Device) interrupt() {
	i := regs.InterruptsOf(d.card)
	causes := i.Causes()
	if causes != 0 && d.card.Err() == nil {
		i.SetCauses(causes)
		if causes.Completion() {
			d.each(regs.InterruptsBase+regs.InterruptsCqReadyOffset, regs.CqCount, func(n uint32) {
				if c := find(d, d.cqs, n); c != nil {
					c.signal()
				}
			})
		}
		if causes.QueuePair() {
			d.each(regs.InterruptsBase+regs.InterruptsQpEventOffset, regs.QpCount, d.queueEvent)
		}
		if causes.CqOverrun() {
			d.overruns()
		}
	}
	if err := d.card.Err(); err != nil && !d.failed {
		d.failed = true // only this goroutine uses it
		d.send(verbs.Event{Type: verbs.EventDeviceFatal, Err: fmt.Errorf("%w: %w", verbs.ErrGone, err)})
	}
}

// each clears the bits of an array of words, and calls do for those that were set.
func (d *Device) each(addr uint64, n int, do func(i uint32)) {
	words := make([]uint64, n/64)
	hwoffload.ReadWords(d.card, addr, words)
	if d.card.Err() != nil {
		return
	}
	for w, set := range words {
		if set != 0 {
			d.card.W64(addr+uint64(w)*8, set)
		}
		for ; set != 0; set &= set - 1 {
			do(uint32(w*64 + bits.TrailingZeros64(set)))
		}
	}
}

// find returns an object by its number, or nil.
func find[T any](d *Device, all map[uint32]*T, n uint32) *T {
	d.lock.Lock()
	defer d.lock.Unlock()
	return all[n]
}

// queueEvent sends the events of an element of block qp.
func (d *Device) queueEvent(n uint32) {
	if s := find(d, d.srqs, n); s != nil {
		if s.Events().LimitReached() {
			d.send(verbs.Event{Type: verbs.EventSRQLimit, SRQ: s})
		}
		return
	}
	q := find(d, d.qps, n)
	if q == nil {
		return
	}
	e := q.Events()
	for _, x := range []struct {
		on   bool
		what verbs.EventType
	}{
		{e.Established(), verbs.EventQPEstablished}, {e.Drained(), verbs.EventQPDrained}, {e.Fatal(), verbs.EventQPFatal},
		{e.AccessError(), verbs.EventQPAccess}, {e.RequestError(), verbs.EventQPRequest}, {e.LastWqe(), verbs.EventQPLastWQE},
	} {
		if x.on {
			d.send(verbs.Event{Type: x.what, QP: q})
		}
	}
}

// overruns sends an event for each completion queue with an overrun that had none before.
func (d *Device) overruns() {
	d.lock.Lock()
	var lost []*CQ
	for _, c := range d.cqs {
		lost = append(lost, c)
	}
	d.lock.Unlock()
	for _, c := range lost {
		if !c.overrun && c.Overrun() {
			c.overrun = true // only this goroutine uses it
			d.send(verbs.Event{Type: verbs.EventCQError, CQ: c})
		}
	}
}

// send sends an event. The oldest is lost if nobody receives.
func (d *Device) send(e verbs.Event) {
	for {
		select {
		case d.events <- e:
			return
		default:
		}
		select {
		case <-d.events:
		default:
		}
	}
}
