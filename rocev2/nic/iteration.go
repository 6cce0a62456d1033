// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/loop"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

// iterate is the body of the loop: it does what there is to do now, within its budgets, and
// returns how much that was. The owner of the loop calls it (loop_owner.go).
func (e *runner) iterate() int {
	e.rxBacklog = false
	e.core.Begin(e.clock.now())
	n := e.receive()
	n += e.takeCalls()
	n += e.takePosts()
	if e.feeder != nil {
		n += e.feeder.Take()
	}
	n += e.core.Run(e.rxBacklog)
	e.submit()
	n += e.core.FailOverruns()
	for _, r := range e.rails {
		n += e.report(r)
	}
	if e.dev.gone.Load() {
		e.failed = verbs.ErrGone
	}
	return n
}

// rxBatch is how many frames of a socket are taken at once.
const rxBatch = 128

// receive passes what has arrived to the core, then what the core has sent to itself, and returns how many packets
// that were.
func (e *runner) receive() (n int) {
	for _, r := range e.rails {
		n += e.receiveFrom(r)
	}
	return n + e.core.ReceiveLoopback()
}

// receiveFrom passes what has arrived on an interface to the core.
func (e *runner) receiveFrom(r *rail) (n int) {
	for _, s := range r.socks {
		got := s.xsk.Receive(s.batch)
		e.rxBacklog = e.rxBacklog || got == rxBatch
		if got > 0 {
			// A receive that was posted before these were sent must be found by them.
			e.takePosts()
		}
		for i := range got {
			p := s.batch.Packet(i)
			m, _ := engine.ParseMeta(p.Meta())
			frame := p.Linear(e.scratch)
			if frame == nil {
				e.core.FrameTooLong()
				continue
			}
			e.core.Frame(frame, m)
		}
		s.batch.Release()
		n += got
	}
	return n
}

// untilNext is the time to the next thing that is due by itself.
func (e *runner) untilNext(now qp.Time) time.Duration {
	next := e.core.Deadline(now, now+qp.Time(maxSleep))
	if e.feeder != nil {
		if d, some := e.feeder.Due(); some {
			next = min(next, now+qp.Time(d))
		}
	}
	return time.Duration(next - now)
}

// maxSleep is how often an idle engine looks whether its interface is there.
const maxSleep = loop.LongSleep

// checkSockets finds out whether the interface was deleted: the kernel wakes no thread for
// that.
func (e *runner) checkSockets() {
	for _, r := range e.rails {
		for _, s := range r.socks {
			if _, err := s.xsk.Wait(0); errors.Is(err, xsk.ErrGone) {
				e.failed = verbs.ErrGone
			}
		}
	}
}
