// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// The wire of all cells: one port of 10 Gbit/s at each end paces the packets, and a base RTT of 50 us.
// Out-of-order mode has at most 128 packets unanswered, which is more than the bandwidth-delay
// product. RC may have as many after a gap, and more without one.
const (
	portRate  = 10_000_000_000 // bit/s
	delay     = 25 * wiretest.Microsecond
	window    = 128 // packets, and what RC may buffer after a gap
	reorderBy = 50 * wiretest.Microsecond

	messageLen         = 16 << 10 // bytes
	virtualOutstanding = 32       // messages, for goodput
)

// virtualLoads are the shares of the port's bit rate that messages have as payload, in the runs in which
// they come at random times.
var virtualLoads = [...]float64{0.4, 0.6, 0.8}

// cell is a wire: the share of packets that are lost, and that are delayed by up to reorderBy.
type cell struct{ loss, reorder float64 }

func (c cell) faults() wiretest.Faults {
	return wiretest.Faults{Loss: c.loss, Reorder: c.reorder, ReorderBy: reorderBy}
}

// figures are what is measured in one cell.
type figures struct {
	goodput float64 // bit/s of payload, outstanding messages at all times
	ratio   float64 // data packets sent per packet delivered, of that run
	full    ends    // times of that run
	load    [len(virtualLoads)]ends
}

// ends are the completion times of the messages of a run: from when a message is to be posted until
// the consumer at the target knows that it is in memory, and until the source knows it.
type ends struct{ target, source times }

// times are percentiles in us.
type times struct{ p50, p99 float64 }

func percentiles(all []float64) times {
	if len(all) == 0 {
		return times{}
	}
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
	// negotiated says after a run in what the transport differs from what was asked for, or "".
	negotiated() string
}

// events are what a transport reports: the consumer of message i at the target knows that it is in
// memory, and the source knows it.
type events struct{ arrived, completed func(i int) }

// maker makes a transport on a wire.
type maker func(w *wiretest.Wire, f wiretest.Faults, on events) transport

// virtualContender is a transport of the comparison.
type virtualContender struct {
	name string
	make maker
	// atSource says that the consumer is at the source: no message is reported at the target.
	atSource bool
	loads    int // number of loads that are measured
}

// virtualRun is one run of a transport.
type virtualRun struct {
	w      *wiretest.Wire
	t      transport
	n      int
	posted int
	ended  int          // messages whose consumer knows
	due    []qp.Time    // post times of the messages
	times  [2][]float64 // us, at the target and at the source
	wanted [2]int       // entries of times that the run has at its end
	last   qp.Time      // end of the last message
}

// start makes a run of n messages. Message i is due at due(i).
func start(seed uint64, c cell, p virtualContender, n int, due func(r *rand.Rand, i int) qp.Time) *virtualRun {
	r := &virtualRun{w: wiretest.New(seed), n: n, wanted: [2]int{n, n}}
	if p.atSource {
		r.wanted[0] = 0
	}
	at := func(side int, ends bool) func(i int) {
		return func(i int) {
			r.times[side] = append(r.times[side], float64(r.w.Now()-r.due[i])/1000)
			if ends {
				r.ended++
				r.last = r.w.Now()
			}
		}
	}
	r.t = p.make(r.w, c.faults(), events{arrived: at(0, !p.atSource), completed: at(1, p.atSource)})
	arrivals := rand.New(rand.NewPCG(seed, 5))
	for i := range n {
		r.due = append(r.due, due(arrivals, i))
	}
	return r
}

// post posts what is due; at most limit messages are outstanding.
func (r *virtualRun) post(limit int) {
	for r.posted < r.n && r.due[r.posted] <= r.w.Now() && r.posted-r.ended < limit {
		if limit < r.n { // due when there is room
			r.due[r.posted] = r.w.Now()
		}
		if !r.t.post(r.posted) {
			return
		}
		r.posted++
	}
}

func (r *virtualRun) done() bool {
	return len(r.times[0]) == r.wanted[0] && len(r.times[1]) == r.wanted[1]
}

// wait runs the wire until both ends know of all messages.
func (r *virtualRun) wait(limit int, step qp.Time) error {
	const longest = 60 * wiretest.Second
	for !r.done() {
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
			return fmt.Errorf("%d of %d messages ended after %d us: %s", r.ended, r.n, r.w.Now()/1000, what)
		}
	}
	if what := r.t.negotiated(); what != "" {
		return errors.New(what)
	}
	return nil
}

func (r *virtualRun) ends() ends { return ends{percentiles(r.times[0]), percentiles(r.times[1])} }

// full runs n messages, of which outstanding are outstanding at all times.
func full(seed uint64, c cell, p virtualContender, n int) (*virtualRun, error) {
	r := start(seed, c, p, n, func(*rand.Rand, int) qp.Time { return 0 })
	if err := r.wait(virtualOutstanding, 2*wiretest.Microsecond); err != nil {
		return nil, fmt.Errorf("goodput: %w", err)
	}
	return r, nil
}

// goodput returns the payload in bit/s until the last message ended.
func (r *virtualRun) goodput() float64 {
	return float64(r.n) * messageLen * 8 / (float64(r.last) / 1e9)
}

// virtualMeasure measures one transport in one cell with n messages.
func virtualMeasure(seed uint64, c cell, p virtualContender, n int) (f figures, err error) {
	r, err := full(seed, c, p, n)
	if err != nil {
		return f, err
	}
	f.goodput = r.goodput()
	f.ratio = r.t.sentPerDelivered()
	f.full = r.ends()
	for i, load := range virtualLoads[:p.loads] {
		interval := messageLen * 8 / (load * portRate) * 1e9
		at := 0.0
		r = start(seed, c, p, n, func(a *rand.Rand, _ int) qp.Time {
			at += a.ExpFloat64() * interval
			return wiretest.Microsecond + qp.Time(at)
		})
		if err := r.wait(n, 50*wiretest.Microsecond); err != nil {
			return f, fmt.Errorf("completion times at %.0f %% load: %w", 100*load, err)
		}
		f.load[i] = r.ends()
	}
	return f, nil
}
