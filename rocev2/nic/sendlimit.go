// SPDX-License-Identifier: Apache-2.0

package nic

import "github.com/softroce/softroce-xdp/rocev2/qp"

// SendLimit returns why the queue pair sends nothing at this moment. qp.NotLimited means that
// its next packet leaves at once.
func (x *QP) SendLimit() (why qp.SendLimit, err error) {
	err = x.dev.do(func() error {
		why = x.dev.eng.sendLimit(&x.egress)
		return nil
	})
	return why, err
}

// sendLimit tries the queue pair's limit limits first: the others do not matter to one that has
// nothing to send. The rest are in the order in which serve meets them.
func (e *engine) sendLimit(g *egress) qp.SendLimit {
	x, a := g.qp, g.next()
	limit, d := x.transport.SendLimit(e.now), g.destOf(a)
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
	case !e.hasFrame(a):
		return qp.LimitSocket
	}
	return limit
}

// destLimit returns the limit of the queue pair that is in service at a destination, else of
// the first that is blocked on its window, else of the last that left service with work requests in
// its queue.
func (e *engine) destLimit(d *dest) qp.SendLimit {
	g := d.drr.First()
	if g == nil {
		num := d.idle
		if q := d.flight.Head(); q != nil {
			num = q.QPN()
		}
		if x := e.qps.Lookup(num); x != nil {
			g = x.egressAt(d)
		}
		if g == nil {
			return qp.NotLimited
		}
	}
	return e.sendLimit(g)
}
