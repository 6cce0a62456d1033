// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/softroce/softroce-xdp/rocev2/qp"

// SendLimit returns why the queue pair sends nothing at this moment. qp.NotLimited means that
// its next packet leaves at once.
func (x *QP) SendLimit() qp.SendLimit { return x.core.tx.sendLimit(&x.egress) }

// sendLimit tries the queue pair's limit limits first: the others do not matter to one that has
// nothing to send. The rest are in the order in which serve meets them.
func (t *transmitter) sendLimit(g *egress) qp.SendLimit {
	x, a := g.qp, g.next()
	limit, d := x.transport.SendLimit(t.e.now), g.destOf(a)
	if limit == qp.LimitDestQueue && d.flight.IsNext(&x.q) {
		limit = qp.NotLimited // there is room: the next iteration serves it
	}
	switch {
	case limit != qp.NotLimited || d == nil:
		return limit
	case x.hooked && !g.drr.Queued() && !x.dirty && !x.q.Waits(): // mayStart returned false
		return qp.LimitFirstFlight
	case d.paceBlocked != 0:
		return qp.LimitPacer
	case !t.hasFrame(a):
		return qp.LimitSocket
	}
	return limit
}

// destLimit returns the limit of the queue pair that is in service at a destination, else of
// the first that is blocked on its window, else of the last that left service with work requests in
// its queue.
func (t *transmitter) destLimit(d *dest) qp.SendLimit {
	g := d.drr.First()
	if g == nil {
		num := d.idle
		if q := d.flight.Head(); q != nil {
			num = q.QPN()
		}
		if x := t.e.qps.Lookup(num); x != nil {
			g = x.egressAt(d)
		}
		if g == nil {
			return qp.NotLimited
		}
	}
	return t.sendLimit(g)
}
