// SPDX-License-Identifier: Apache-2.0

package nic

// The engine's transmissions bypass TC, and with it all that egress does for the
// destination table. Every few milliseconds a goroutine next to the engine reports
// what was sent to the destinations that were active, and brings back their rates
// and what they understand. The engine only exchanges batches with it.

func (s *syncer) init() { s.wake, s.ended = make(chan struct{}, 1), make(chan struct{}) }

// run is the goroutine, until wake is closed.
func (s *syncer) run(e *runner, w Dataplane) {
	defer close(s.ended)
	for range s.wake {
		s.reported, s.err = w.Sync(s.reports)
		s.done.Store(true)
		e.driver.Wake()
	}
}

// report applies the replies to the last batch of a rail and sends the next one when it is due. It returns 1 if there
// were replies: what they have changed is for the next iteration.
func (e *runner) report(r *rail) (n int) {
	s := &r.sync
	if s.out {
		if !s.done.Load() {
			return 0
		}
		s.done.Store(false)
		s.out = false
		e.core.Replies(r.index, s.reported, s.err != nil)
		n = 1
	}
	if !e.core.ReportsDue(r.index) {
		return n
	}
	e.core.Configure(r.index, r.dataplane.RuntimeConfig())
	s.reports = e.core.Reports(r.index)
	s.out = true
	s.wake <- struct{}{}
	return n
}
