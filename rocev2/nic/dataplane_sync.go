// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"time"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// The engine's transmissions bypass TC, and with it all that egress does for the
// destination table. Every few milliseconds a goroutine next to the engine reports
// what was sent to the destinations that were active, and brings back their rates
// and what they understand. The engine only exchanges batches with it.

const (
	// syncPeriod is the time between reports. The agent evaluates every 5 to 10 ms.
	syncPeriod = qp.Time(3 * time.Millisecond)
	// syncRetry is the time until the next report after one that failed.
	syncRetry = 10 * syncPeriod
)

func (s *syncer) init() { s.wake, s.ended = make(chan struct{}, 1), make(chan struct{}) }

// run is the goroutine, until wake is closed.
func (s *syncer) run(e *engine, w Dataplane) {
	defer close(s.ended)
	for range s.wake {
		s.reported, s.err = w.Sync(s.reports)
		s.done.Store(true)
		e.driver.Wake()
	}
}

// report applies the replies to the last batch of a rail and sends the next one when it is due.
func (e *engine) report(r *rail) {
	s := &r.sync
	if s.out {
		if !s.done.Load() {
			return
		}
		s.done.Store(false)
		s.out = false
		e.applyReplies(s)
	}
	if len(r.syncQueue) == 0 || e.now < s.due {
		return
	}
	s.due = e.now + syncPeriod
	e.applyConfig(r, r.dataplane.RuntimeConfig())
	s.dests, s.reports = s.dests[:0], s.reports[:0]
	for _, d := range r.syncQueue {
		d.syncQueued = false
		if d.paceBlocked != 0 && !d.waits(e.now) { // still waiting: what it has waited so far
			d.report.WaitedTime += e.now - d.paceBlocked
			d.paceBlocked = e.now
		}
		d.report.Waits, d.report.CMAnswers = d.paceBlocked != 0 && !d.waits(e.now), d.answers
		d.report.Limit = e.destLimit(d)
		d.report.Rate = d.pacer.Rate()
		d.report.Src = d.tokens.ask()
		s.dests, s.reports = append(s.dests, d), append(s.reports, d.report)
		d.report = DestSync{Addr: d.addr}
	}
	r.syncQueue = r.syncQueue[:0]
	s.out = true
	s.wake <- struct{}{}
}

// applyReplies applies the replies, and queues those destinations again that wait for the next
// ones, or whose report failed.
func (e *engine) applyReplies(s *syncer) {
	if s.err != nil {
		e.count.syncErrors++
		s.due = max(s.due, e.now+syncRetry)
	}
	for i, d := range s.dests {
		if i >= s.reported {
			d.report.add(&s.reports[i])
			e.queueForSync(d)
			continue
		}
		if d.refs == 0 {
			continue
		}
		e.applyEntry(d, &s.reports[i])
		// HELLO is in flight, data waits for the pacer or the window, which may change, or the peer was asked.
		if d.initialSyncs > 0 || d.paceBlocked != 0 || d.flight.Waiting() || d.guard.question.open {
			d.initialSyncs = max(d.initialSyncs-1, 0)
			e.queueForSync(d)
		}
	}
}

// applyEntry applies the destination table's entry of a destination.
func (e *engine) applyEntry(d *dest, r *DestSync) {
	if d.pacer.Rate() != r.Rate {
		d.setRate(e, r.Rate)
	}
	d.setPolicyWindow(e, r.Window)
	if !r.NoToken && r.Known && r.Stamps {
		d.endWait(e)
	}
	if d.paceBlocked != 0 {
		at := qp.Time(d.pacer.Next())
		switch {
		case d.waits(e.now):
			at = max(at, d.waitsUntil)
		case d.mayLeave(e): // also if pacing has ended
			at = e.now
		}
		e.destTimers.Set(&d.timer, int64(at))
	}
	d.stamps, d.sack = r.Known && r.Stamps, r.Known && r.SACK
	renewed := d.tokens.answer(r.Src, r.Token, r.NoToken)
	e.applyGuard(d, r)
	d.offersCredit, d.ooo = r.Known && r.Credit, r.Known && r.OOO
	if e.hooks != nil {
		if renewed {
			e.hooks.onRenewed(d)
		}
		e.hooks.onPeer(d, r)
	}
	if d.stamps && !d.tokens.missing() {
		d.initialSyncs = 0
	}
}
