// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// The program has a table of destinations, with their rates and what their peers understand. Every few
// milliseconds a core reports what was sent to the destinations that were active, and applies what the table has of
// them: Reports, then Replies.
const (
	// syncPeriod is the time between reports. The agent evaluates every 5 to 10 ms.
	syncPeriod = qp.Time(3 * time.Millisecond)

	// syncRetry is the time until the next report after one that failed.
	syncRetry = 10 * syncPeriod
)

// ReportsDue reports whether Reports of an interface is to be called. rail is an index of Config.Rails.
func (e *Core) ReportsDue(rail int) bool {
	r := e.dests.rails[rail]
	return len(r.syncQueue) > 0 && e.now >= r.due
}

// Configure applies the present configuration of an interface.
func (e *Core) Configure(rail int, c RuntimeConfig) { e.dests.applyConfig(e.dests.rails[rail], c) }

// Reports returns the reports of an interface that are due. The program fills in the replies, in place, and calls
// Replies, later if it likes, before it calls Reports of the interface again. Until then, the memory is the
// program's.
func (e *Core) Reports(rail int) []DestSync {
	r := e.dests.rails[rail]
	r.due = e.now + syncPeriod
	r.batch, r.reports = r.batch[:0], r.reports[:0]
	for _, d := range r.syncQueue {
		d.syncQueued = false
		if d.paceBlocked != 0 && !d.waits(e.now) { // still waiting: what it has waited so far
			d.report.WaitedTime += e.now - d.paceBlocked
			d.paceBlocked = e.now
		}
		d.report.Waits, d.report.CMAnswers = d.paceBlocked != 0 && !d.waits(e.now), d.answers
		d.report.Limit = e.tx.destLimit(d)
		d.report.Rate = d.pacer.Rate()
		d.report.Src = d.tokens.ask()
		r.batch, r.reports = append(r.batch, d), append(r.reports, d.report)
		d.report = DestSync{Addr: d.addr}
	}
	r.syncQueue = r.syncQueue[:0]
	return r.reports
}

// Replies applies the replies to the latest Reports of an interface. reported: how many of them succeeded, from the
// first on; failed: the others did not. They are reported again.
func (e *Core) Replies(rail, reported int, failed bool) {
	e.dests.applyReplies(e.dests.rails[rail], reported, failed)
}

// applyReplies applies replies, and queues those destinations again that wait for the next
// ones, or whose report failed.
func (s *destinations) applyReplies(r *rail, reported int, failed bool) {
	now := s.e.now
	if failed {
		s.e.count.syncErrors++
		r.due = max(r.due, now+syncRetry)
	}
	for i, d := range r.batch {
		if i >= reported {
			d.report.add(&r.reports[i])
			s.queueForSync(d)
			continue
		}
		if d.refs == 0 {
			continue
		}
		s.applyEntry(d, &r.reports[i])
		// HELLO is in flight, data waits for the pacer or the window, which may change, or the peer was asked.
		if d.initialSyncs > 0 || d.paceBlocked != 0 || d.flight.Waiting() || d.guard.question.open {
			d.initialSyncs = max(d.initialSyncs-1, 0)
			s.queueForSync(d)
		}
	}
}

// applyEntry applies the destination table's entry of a destination.
func (s *destinations) applyEntry(d *dest, r *DestSync) {
	if d.pacer.Rate() != r.Rate {
		d.setRate(s.e, r.Rate)
	}
	d.setPolicyWindow(s.e, r.Window)
	if !r.NoToken && r.Known && r.Stamps {
		d.endWait(s.e)
	}
	if d.paceBlocked != 0 {
		at := qp.Time(d.pacer.Next())
		switch {
		case d.waits(s.e.now):
			at = max(at, d.waitsUntil)
		case d.mayLeave(s.e): // also if pacing has ended
			at = s.e.now
		}
		s.timers.Set(&d.timer, int64(at))
	}
	d.stamps, d.sack = r.Known && r.Stamps, r.Known && r.SACK
	renewed := d.tokens.answer(r.Src, r.Token, r.NoToken)
	s.applyGuard(d, r)
	d.offersCredit, d.ooo = r.Known && r.Credit, r.Known && r.OOO
	if s.e.hooks != nil {
		if renewed {
			s.e.hooks.onRenewed(d)
		}
		s.e.hooks.onPeer(d, r)
	}
	if d.stamps && !d.tokens.missing() {
		d.initialSyncs = 0
	}
}
