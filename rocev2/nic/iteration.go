// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/nic/internal/loop"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

// iterate is the body of the loop: it does what there is to do now, within its budgets, and
// returns how much that was. The owner of the loop calls it (loop_owner.go).
func (e *engine) iterate() int {
	e.txFramesExhausted, e.rxBacklog = false, false
	e.now = e.clock.now()
	n := e.receive()
	n += e.takeCalls()
	n += e.takePosts()
	if e.feeder != nil {
		n += e.feeder.Take()
	}
	if e.rxBacklog && e.timersDeferred < maxDeferred {
		e.timersDeferred++
	} else {
		e.timersDeferred = 0
		e.expireAckWait()
		e.qpTimers.Advance(int64(e.now), e.onTimer)
	}
	e.destTimers.Advance(int64(e.now), e.onDest)
	e.resume()
	e.flushDirty()
	if len(e.mads.queue) > 0 {
		n += e.sendMADs()
	}
	n += e.transmit()
	if e.distributor != nil {
		n += e.distributor.run()
	}
	e.flushDirty()
	n += e.shortLoopback()
	if e.hooks != nil {
		e.hooks.onIteration()
	}
	e.submit()
	n += e.failOverruns()
	for r := range e.rails {
		e.report(r)
	}
	if e.dev.gone.Load() {
		e.failed = verbs.ErrGone
	}
	return n
}

// maxDeferred is for how many iterations timers of queue pairs wait while more has arrived
// than one iteration takes: the ACK that a queue pair waits for may be there. In so many, all
// frames of a socket are received twice.
const maxDeferred = 64

// expire is called for a queue pair whose timer is due, or was when it was set.
func (e *engine) expire(x *QP) {
	if at := x.deadline(); at == 0 || at > e.now {
		e.rearm(x)
		return
	}
	count := x.q.Config().Count
	before := count.Timeouts
	x.transport.Expire(e.now)
	if x.hooked {
		e.hooks.onTimeout(x, count.Timeouts != before)
	}
	e.markDirty(x)
}

// untilNext is the time to the next thing that is due by itself.
func (e *engine) untilNext(now qp.Time) time.Duration {
	next := now + qp.Time(maxSleep)
	for _, at := range [...]int64{int64(e.ackWait.next()), e.qpTimers.Next(), e.destTimers.Next(), int64(e.outages.due())} {
		if at != 0 {
			next = min(next, qp.Time(at))
		}
	}
	for r := range e.rails {
		if len(r.syncQueue) > 0 {
			next = min(next, r.sync.due)
		}
	}
	if len(e.mads.queue) > 0 || len(e.dirty) > 0 { // they wait for a token
		next = min(next, now+answerPatience/16)
	}
	if e.hooks != nil {
		if at := e.hooks.deadline(now); at != 0 {
			next = min(next, qp.Time(at))
		}
	}
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
func (e *engine) checkSockets() {
	for r := range e.rails {
		for _, s := range r.socks {
			if _, err := s.xsk.Wait(0); errors.Is(err, xsk.ErrGone) {
				e.failed = verbs.ErrGone
			}
		}
	}
}
