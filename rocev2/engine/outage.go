// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// After an outage, the timeouts of queue pairs are far apart. One queue pair at a time probes a silent destination
// (qp/req_silence.go). When that is answered, or when the link comes up, all its queue pairs probe soon.

// outages are the destinations whose queue pairs are to continue. They do so together, since all queue pairs are
// looked at.
type outages struct {
	ended     bool    // some destinations answer again, see dest.resumes
	resumedAt qp.Time // time of the last check of the queue pairs
}

// resumeGap is the time between two looks at all queue pairs.
const resumeGap = qp.Time(20 * time.Millisecond)

// answered notes that a destination answers again.
func (o *outages) answered(d *dest) { d.resumes, o.ended = true, true }

// due is when the queue pairs are to be looked at, or 0.
func (o *outages) due() qp.Time {
	if !o.ended {
		return 0
	}
	return o.resumedAt + resumeGap
}

// resume has the queue pairs of the destinations that answer again continue.
func (e *Core) resume() {
	if !e.outages.ended || e.now < e.outages.due() {
		return
	}
	e.outages = outages{resumedAt: e.now}
	for x := range e.qps.All() {
		if x.dest != nil && x.dest.resumes {
			x.q.Resume(e.now)
			e.timers.rearm(x, e.now)
		}
	}
	for _, r := range e.dests.rails {
		for _, d := range r.dests {
			d.resumes = false
		}
	}
	for _, d := range e.dests.entries {
		d.resumes = false
	}
}

// LinkUp has all queue pairs find out whether their destinations answer, because the link of the first
// interface is up again.
func (e *Core) LinkUp() {
	for _, d := range e.dests.rails[0].dests {
		d.flight.LinkUp(e.now)
	}
	for x := range e.qps.All() {
		x.q.Resume(e.now)
		e.timers.rearm(x, e.now)
	}
}
