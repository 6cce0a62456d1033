// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"slices"

	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Counts counts what happens at the queue pairs of one user of the device, such as a process
// (package loader/device). Device.Counters has the sum of all users.
type Counts struct {
	dev *Device
	qps qp.Counters // the engine's
}

// NewCounts makes counters for a user of the device. Close gives them back.
func (d *Device) NewCounts() *Counts {
	c := &Counts{dev: d}
	d.InLoop(func() { d.eng.counts = append(d.eng.counts, c) })
	return c
}

// CountTo has c count what happens at the queue pairs that are made of the domain from now on.
func (p *PD) CountTo(c *Counts) { p.counts = c }

func (p *PD) count() *qp.Counters {
	if p.counts == nil {
		return p.dev.eng.core.QPCounters()
	}
	return &p.counts.qps
}

// Counters returns the counters of queue pairs, of those that count here, and behind them the
// counters of packets that were dropped without a queue pair, which are those of the whole device.
// They have the names and the order of Device.Counters.
func (c *Counts) Counters() []verbs.Counter {
	var q qp.Counters
	var e engine.Counters
	c.dev.InLoop(func() { q, e = c.qps, c.dev.eng.core.Counters() })
	return append(engine.OfQueuePairs(&q), c.dev.ofDrops(&e)...)
}

// Close ends the counters. The device keeps what they have counted. Their queue pairs must have been
// destroyed.
func (c *Counts) Close() {
	e := c.dev.eng
	c.dev.InLoop(func() {
		if i := slices.Index(e.counts, c); i >= 0 {
			e.core.QPCounters().Add(&c.qps)
			e.counts = slices.Delete(e.counts, i, i+1)
		}
	})
}

// countsList are the counters of all users that have some of their own.
type countsList []*Counts

// total adds them to those of all others.
func (l countsList) total(others *qp.Counters) qp.Counters {
	sum := *others
	for _, c := range l {
		sum.Add(&c.qps)
	}
	return sum
}
