// SPDX-License-Identifier: Apache-2.0

package lease

import "time"

// Report takes what a node needed in a period, as it was asked (ActionAsk), and begins its next period.
// A report that was not asked for is ignored.
func (t *Table) Report(now time.Duration, id NodeID, period uint32, u Usage) []Action {
	n := t.node(id)
	if n == nil || n.away || !n.asked || period != n.period {
		t.counts.Stale++
		return nil
	}
	leased := uint64(len(n.slabs)) * t.c.SlabBytes
	n.usage = Usage{Demand: min(u.Demand, t.bytes()), Used: min(u.Used, leased), Leased: leased}
	t.c.Planner.Observe(id, n.usage)
	t.startPeriod(now, n)
	return t.actions()
}

// Next returns when Tick has something to do. False: never, unless something else happens before.
func (t *Table) Next() (at time.Duration, ok bool) {
	sooner := func(d time.Duration) {
		if !ok || d < at {
			at, ok = d, true
		}
	}
	for _, n := range t.nodes {
		sooner(t.due(n))
		for _, s := range n.slabs {
			if t.slabs[s].state == returning {
				sooner(t.slabs[s].until)
			}
		}
	}
	return at, ok
}

// due returns when the next step of a node is due.
func (t *Table) due(n *node) time.Duration {
	switch {
	case n.away:
		return n.dropAt
	case n.asked:
		return n.periodEnd + t.c.Answer
	}
	return n.periodEnd
}

// Tick does what is due: it asks nodes whose period has ended, begins periods without a report, closes
// slabs that were not returned, and drops nodes that did not come back.
func (t *Table) Tick(now time.Duration) []Action {
	for i := len(t.nodes) - 1; i >= 0; i-- {
		n := t.nodes[i]
		t.revokeOverdue(now, n)
		if t.due(n) > now {
			continue
		}
		switch {
		case n.away:
			t.counts.Expired++
			t.drop(n)
		case n.asked:
			t.counts.NoReports++
			t.startPeriod(now, n)
		default:
			n.asked = true
			n.periodEnd = now // what Report and Answer refer to, also after a late tick
			t.do(Action{Kind: ActionAsk, Node: n.id, Period: n.period})
		}
	}
	return t.actions()
}

// revokeOverdue closes slabs whose deadline has passed.
func (t *Table) revokeOverdue(now time.Duration, n *node) {
	for i := len(n.slabs) - 1; i >= 0; i-- {
		if x := t.slabs[n.slabs[i]]; x.state == returning && x.until <= now {
			t.close(n.slabs[i])
			t.counts.Revoked++
		}
	}
}

// startPeriod plans the pool, and leases the node its part for a period that begins now.
func (t *Table) startPeriod(now time.Duration, n *node) {
	n.period++
	n.asked, n.periodEnd = false, now+n.length
	slabs, index := t.c.Slabs-t.broken, -1
	var list []Need
	for _, x := range t.nodes {
		if x.away {
			slabs -= len(x.slabs)
			continue
		}
		if x == n {
			index = len(list)
		}
		list = append(list, Need{Node: x.id, Usage: x.usage})
	}
	plan := t.c.Planner.Plan(slabs, t.c.SlabBytes, list)
	n.planned = plan[index]
	t.resize(now, n, n.planned)
	t.do(Action{Kind: ActionLease, Node: n.id, Period: n.period})
}
