// SPDX-License-Identifier: Apache-2.0

package nic

// After an outage, the timeouts of queue pairs are far apart. One queue pair at a time probes a silent destination
// (qp/req_silence.go). When that is answered, or when the link comes up, all its queue pairs probe soon.

// resume has the queue pairs of a destination continue, because it answers again.
func (e *engine) resume(d *dest) {
	for x := range e.qps.All() {
		if x.dest == d {
			x.q.Resume(e.now)
			e.rearm(x)
		}
	}
}

// linkUp has all queue pairs find out whether their destinations answer, because the link of the device's own
// interface is up again.
func (e *engine) linkUp() {
	for _, d := range e.dests {
		d.flight.LinkUp(e.now)
	}
	for x := range e.qps.All() {
		x.q.Resume(e.now)
		e.rearm(x)
	}
}
