// SPDX-License-Identifier: Apache-2.0

package nic

// After an outage, the timeouts of queue pairs are far apart. So one queue pair at a time asks a silent
// destination every 100 ms whether it is back (qp/req_silence.go), and its answer has all others send again.
// When the link of the interface is up again, that begins at once.

// destAnswers has the queue pairs of a destination send again, which was silent and answers.
func (e *engine) destAnswers(d *dest) {
	for x := range e.qps.All() {
		if x.dest == d {
			x.q.SendAgain(e.now)
			e.rearm(x)
		}
	}
}

// linkUp has the queue pairs look at once whether their destinations answer.
func (e *engine) linkUp() {
	for r := range e.rails {
		for _, d := range r.dests {
			d.flight.LinkUp(e.now)
		}
	}
	for x := range e.qps.All() {
		x.q.LinkUp()
		e.rearm(x)
	}
}
