// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"slices"

	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// What the engine does for distribution regions: mr.Distribution decides what is posted, the
// distributor posts it and takes the completions. All of it runs in the core's goroutine.

// distributor has the distributions that have something to do.
type distributor struct {
	e            *Core
	queue, spare []*Distribution
	posted       bool // something since run began
}

func (f *distributor) add(d *Distribution) {
	if !d.queued {
		d.queued = true
		f.queue = append(f.queue, d)
	}
}

// run posts what distributions have to send, and returns how much was done. A distribution that has
// found a send queue full stays in the queue: each iteration tries again. Room comes with an ACK, a
// timer or a call, so it comes in an iteration.
func (f *distributor) run() int {
	if len(f.queue) == 0 {
		return 0
	}
	f.posted = false
	list := f.queue
	f.queue = f.spare[:0]
	for _, d := range list {
		d.queued = false
		full := d.post()
		d.takeEnded() // after post: in ERR, work requests end at once
		if d.report() || full {
			f.add(d)
		}
	}
	clear(list)
	f.spare = list[:0]
	if !f.posted {
		return 0
	}
	f.e.tx.flushDirty()
	return 1 + f.e.tx.transmit()
}

// post posts the WRITEs. It reports whether a send queue is full.
func (d *Distribution) post() (full bool) {
	d.forward.Post(func(to mr.Destination, wr *verbs.SendWR) error {
		err := d.group[to.QPN].postInternal(wr, internalSend{d: d, id: wr.ID})
		full = full || errors.Is(err, verbs.ErrQueueFull)
		return err
	})
	return full
}

func (d *Distribution) takeEnded() {
	for _, s := range d.ended {
		d.forward.Complete(s.id, s.status)
	}
	d.ended = d.ended[:0]
}

// unsentReport is a report for an origin.
type unsentReport struct {
	to *internalSends
	mr.Report
}

// report sends the reports of messages whose destinations all have a status. It reports whether some
// have to wait for room in the send queue of their origin. One origin delays no other.
func (d *Distribution) report() (full bool) {
	for {
		r, ok := d.forward.NextReport()
		if !ok {
			break
		}
		for i, s := range r.Status[:r.Destinations] {
			if s == verbs.StatusSuccess {
				d.stats.Delivered[i]++
			} else {
				d.stats.Failed[i]++
			}
		}
		d.unsent = append(d.unsent, unsentReport{d.origins[0], r})
		d.origins = slices.Delete(d.origins, 0, 1)
	}
	var stuck *internalSends // whose send queue was full: others of it need no try
	d.unsent = slices.DeleteFunc(d.unsent, func(r unsentReport) bool {
		if r.to == stuck || d.send(r) {
			stuck = r.to
			return false
		}
		return true
	})
	return len(d.unsent) > 0
}

// send sends a report. It reports whether the send queue is full.
func (d *Distribution) send(r unsentReport) (full bool) {
	if r.to.qp == nil {
		d.stats.ReportsLost++
		return false
	}
	wr := verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled | verbs.Inline, Data: r.AppendTo(nil)}
	err := r.to.qp.postInternal(&wr, internalSend{d: d, report: true})
	if err != nil && !errors.Is(err, verbs.ErrQueueFull) {
		d.stats.ReportsLost++
	}
	return errors.Is(err, verbs.ErrQueueFull)
}

// endedSend is a WRITE that has its status.
type endedSend struct {
	id     uint64
	status verbs.Status
}

// internalSend is an outstanding work request of a distribution.
type internalSend struct {
	d      *Distribution
	id     uint64 // ID chosen by mr.Distribution
	report bool
}

func (s internalSend) end(status verbs.Status) {
	switch {
	case !s.report:
		s.d.ended = append(s.d.ended, endedSend{s.id, status})
		s.d.core.distributor.add(s.d)
	case status == verbs.StatusSuccess:
		s.d.stats.Reports++
	default:
		s.d.stats.ReportsLost++
	}
}

// internalSends has the outstanding work requests of distributions on a queue pair, from one reset to
// the next. It is their completion queue: the application's does not see them.
type internalSends struct {
	qp   *QP // nil after the reset: a report is not for the next peer
	list []internalSend
	head int // index of the oldest in list; work requests complete in order (IBTA 10.8.5)
}

func (x *QP) internalSends() *internalSends {
	if x.internal == nil {
		x.internal = &internalSends{qp: x}
	}
	return x.internal
}

// Complete implements qp.CompletionQueue.
func (l *internalSends) Complete(c verbs.Completion) {
	s := l.list[l.head]
	l.head++
	if 2*l.head >= len(l.list) {
		l.list = slices.Delete(l.list, 0, l.head)
		l.head = 0
	}
	s.end(c.Status)
}

// disconnect is called when the queue pair is reset or destroyed, or connected again: work requests
// that were in its queue then have no completion.
func (l *internalSends) disconnect() {
	l.qp.internal, l.qp = nil, nil
	for _, s := range l.list[l.head:] {
		s.end(verbs.StatusWRFlushed)
	}
	l.list, l.head = nil, 0
}

// postInternal posts a work request of a distribution. A queue pair that was destroyed is in RESET,
// which refuses.
func (x *QP) postInternal(wr *verbs.SendWR, s internalSend) error {
	e := x.core
	l := x.internalSends()
	l.list = append(l.list, s) // before PostInternal, which completes it at once in ERR
	if err := x.q.PostInternal(wr, l); err != nil {
		l.list = l.list[:len(l.list)-1]
		return err
	}
	if x.hooked {
		e.hooks.onPosted(x, wr)
	}
	e.distributor.posted = true
	e.tx.markDirty(x)
	return nil
}
