// SPDX-License-Identifier: Apache-2.0

package orderbench

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// The wire of all cells: one port of 10 Gbit/s at each end paces the packets, a base RTT of 50 us,
// and at most 128 packets unanswered, which is more than the bandwidth-delay product.
const (
	portRate  = 10_000_000_000 // bit/s
	delay     = 25 * wiretest.Microsecond
	window    = 128 // packets, and what RC may buffer after a gap
	reorderBy = 50 * wiretest.Microsecond

	messageLen  = 16 << 10 // bytes
	outstanding = 32       // messages, for goodput
	load        = 0.4      // of the port, for completion times
)

// cell is a wire: the share of packets that are lost, and that are delayed by up to reorderBy.
type cell struct{ loss, reorder float64 }

func (c cell) faults() wiretest.Faults {
	return wiretest.Faults{Loss: c.loss, Reorder: c.reorder, ReorderBy: reorderBy}
}

// figures are what is measured in one cell.
type figures struct {
	goodput float64 // bit/s of payload, outstanding messages at all times
	full    times   // of that run
	load    times   // with messages that come at random times, at load
	ratio   float64 // data packets sent per packet delivered, of the goodput run
	loadRatio float64
}

// times are completion times in us: from when a message is to be posted until its consumer knows that
// it is in memory.
type times struct{ p50, p99 float64 }

func percentiles(all []float64) times {
	slices.Sort(all)
	return times{all[len(all)/2], all[len(all)*99/100]}
}

// transport is what sends messages of messageLen.
type transport interface {
	// post starts message i, or returns false if the queue is full.
	post(i int) bool
	serve()
	sentPerDelivered() float64
	failure() string
}

// maker makes a transport on a wire. arrived is called when the consumer of message i knows that it
// is in its memory.
type maker func(w *wiretest.Wire, f wiretest.Faults, arrived func(i int)) transport

// run is one run of a transport.
type run struct {
	w       *wiretest.Wire
	t       transport
	n       int
	posted  int
	arrived int
	due     []qp.Time // when each message is to be posted
	times   []float64 // us, of the messages that arrived
	last    qp.Time
}

// start makes a run of n messages. Message i is due at due(i).
func start(seed uint64, c cell, make maker, n int, due func(r *rand.Rand, i int) qp.Time) *run {
	r := &run{w: wiretest.New(seed), n: n}
	r.t = make(r.w, c.faults(), func(i int) {
		r.arrived++
		r.last = r.w.Now()
		r.times = append(r.times, float64(r.w.Now()-r.due[i])/1000)
	})
	arrivals := rand.New(rand.NewPCG(seed, 5))
	for i := range n {
		r.due = append(r.due, due(arrivals, i))
	}
	return r
}

// post posts what is due; at most limit messages are outstanding.
func (r *run) post(limit int) {
	for r.posted < r.n && r.due[r.posted] <= r.w.Now() && r.posted-r.arrived < limit {
		if !r.t.post(r.posted) {
			return
		}
		if limit < r.n { // due when there is room
			r.due[r.posted] = r.w.Now()
		}
		r.posted++
	}
}

// wait runs the wire until all messages have arrived.
func (r *run) wait(limit int, step qp.Time) error {
	const longest = 60 * wiretest.Second
	for r.arrived < r.n {
		r.post(limit)
		r.t.serve()
		next := r.w.Now() + step
		if r.posted < r.n && r.due[r.posted] > r.w.Now() {
			next = r.due[r.posted]
		}
		r.w.After(next-r.w.Now(), func() {})
		if err := r.w.Run(next); err != nil {
			return err
		}
		if what := r.t.failure(); what != "" || r.w.Now() > longest {
			return fmt.Errorf("%d of %d messages arrived after %d us: %s", r.arrived, r.n, r.w.Now()/1000, what)
		}
	}
	return nil
}

// measure measures one transport in one cell with n messages.
func measure(seed uint64, c cell, make maker, n int) (f figures, err error) {
	r := start(seed, c, make, n, func(*rand.Rand, int) qp.Time { return 0 })
	if err := r.wait(outstanding, 2*wiretest.Microsecond); err != nil {
		return f, fmt.Errorf("goodput: %w", err)
	}
	f.goodput = float64(n) * messageLen * 8 / (float64(r.last) / 1e9)
	f.ratio = r.t.sentPerDelivered()
	f.full = percentiles(r.times)

	interval := messageLen * 8 / (load * portRate) * 1e9
	at := 0.0
	r = start(seed, c, make, n, func(a *rand.Rand, _ int) qp.Time {
		at += a.ExpFloat64() * interval
		return wiretest.Microsecond + qp.Time(at)
	})
	if err := r.wait(n, 50*wiretest.Microsecond); err != nil {
		return f, fmt.Errorf("completion times: %w", err)
	}
	f.loadRatio = r.t.sentPerDelivered()
	f.load = percentiles(r.times)
	return f, nil
}
