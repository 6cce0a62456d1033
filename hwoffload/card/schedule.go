// SPDX-License-Identifier: Apache-2.0

package card

import "github.com/softroce/softroce-xdp/rocev2/qp"

// Scheduling: queue pairs that may have something to send are in a list, and are asked in turn. The turns of the
// queue pairs of one destination are in pacer.go.

// touch has next ask a queue pair for packets, after something has happened to it.
func (d *dataPath) touch(x *queuePair) {
	d.enqueue(x)
	d.touchState(x)
}

func (d *dataPath) enqueue(x *queuePair) {
	if !x.queued {
		x.queued = true
		d.ready = append(d.ready, x)
	}
}

// kind says how a packet leaves.
type kind uint8

const (
	kindAnswer   kind = iota // at once
	kindData                 // paced
	kindCredited             // at once, on pre-credit; the pacer counts it
)

// next asks queue pairs for packets, one after the other, responses before data. Data leaves at
// the rate of its destination (pacer.go), or before that on pre-credit (precredit_port.go).
func (d *dataPath) next(now qp.Time, buf []byte) (port, n int, ok bool) {
	d.release(now)
	if d.credits != nil {
		if port, n = d.credits.next(now, buf); n > 0 {
			return port, n, true
		}
	}
	for d.forward(); len(d.ready) > 0; d.forward() {
		x := d.ready[0]
		d.ready = d.ready[1:]
		if d.qps[x.num] != x {
			d.endTurn(&x.egress, now) // it was reset
			continue
		}
		d.fetchSend(x)
		n = 0
		switch {
		case d.credits != nil && len(d.credits.posted) > 0: // its first packets may have pre-credit
			d.ready = append(d.ready, x)
			port, n = d.credits.next(now, buf)
		case x.q.NextAck(now, &d.out):
			d.ready = append(d.ready, x)
			port, n = d.build(&x.egress, buf, now, kindAnswer)
		case d.mayStart(x, now) && d.mayLeave(&x.egress, now) && x.q.NextData(now, &d.out):
			d.ready = append(d.ready, x)
			port, n = d.build(&x.egress, buf, now, kindData)
			d.endTurn(&x.egress, now)
			d.served(x, false)
		default:
			x.queued = false
			d.endTurn(&x.egress, now)
			d.served(x, true)
			d.touchState(x)
		}
		if n > 0 {
			return port, n, true
		}
	}
	return 0, 0, false
}

// mayStart reports whether a queue pair may send data without pre-credit.
func (d *dataPath) mayStart(x *queuePair, now qp.Time) bool {
	return x.credit == nil || d.credits.mayStart(x, now)
}

// served is called after a turn of a queue pair. idle: it had nothing to send.
func (d *dataPath) served(x *queuePair, idle bool) {
	if x.credit != nil {
		d.credits.served(x, idle)
	}
}
