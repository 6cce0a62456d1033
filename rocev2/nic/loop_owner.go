// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"context"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/nic/internal/loop"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Loop ownership: which thread runs the engine's loop is decided by package loop, which
// has the states and invariants as a table. This file is what it asks the engine.

// loopEngine is the engine as package loop sees it.
type loopEngine struct{ *engine }

var _ loop.Loop = loopEngine{}

func (l loopEngine) Iterate() int { return l.iterate() }
func (l loopEngine) Began() int64 { return int64(l.now) }
func (l loopEngine) Clock() int64 { return int64(l.clock.now()) }
func (l loopEngine) SleptLong()   { l.checkSockets() }
func (l loopEngine) Ending() bool { return l.ending() }
func (l loopEngine) Finish()      { l.finish() }

// pollUntil runs the loop until there is something in c, or c is destroyed. It reports
// whether there is; it gives up early as loop.Driver.PollUntil does.
func (e *engine) pollUntil(ctx context.Context, c *CQ) bool {
	return e.driver.PollUntil(ctx, func() bool { return c.Len() > 0 || c.users.ended() }) && c.Len() > 0
}

// spins is how often an owner that does not sleep looks for packets and work between two
// iterations: some 500 ns, which packets then do not spend waiting for half an empty one.
const spins = 64

func (l loopEngine) Spin() bool {
	for range spins {
		if l.posts.any.Load() || l.calls.any.Load() || l.feeder != nil && l.feeder.Waiting() {
			return true
		}
		for r := range l.rails {
			for _, s := range r.socks {
				if s.xsk.Arrived() {
					return true
				}
			}
		}
	}
	return false
}

// whileSending is how long the owner sleeps while the kernel works on what it was given,
// without telling when it is done.
const whileSending = 20 * time.Microsecond

// IdleWait spins for Options.Spin before the first sleep, since what is waited for often
// comes soon.
//
// While the second thread sends, packets must not wake the owner. To poll a socket in copy
// mode is to transmit, so that the owner would do the second thread's work, or wait for its
// lock; and where much is sent, answers are better taken in batches.
func (l loopEngine) IdleWait(n int) (d time.Duration, maskRX bool) {
	if n > 0 {
		l.lastWork = l.now
		return 0, false
	}
	if l.kicking() {
		return whileSending, true
	}
	switch {
	case time.Duration(l.now-l.lastWork) < l.dev.opts.Spin:
		return 0, false
	case l.txFramesExhausted || l.pendingKick:
		return whileSending, true
	}
	return l.untilNext(l.clock.now()), false
}

func (l loopEngine) NothingPending() bool {
	return !l.posts.any.Load() && !l.calls.any.Load() && !l.replied() && !l.stop.Load() && !l.dev.gone.Load() &&
		(l.feeder == nil || l.feeder.Sleep())
}

func (l loopEngine) Urgent() bool { return l.stop.Load() || l.dev.gone.Load() || l.calls.any.Load() }

// ending reports that the engine's thread is to finish.
func (e *engine) ending() bool { return e.failed != nil || e.stop.Load() }

// finish ends everything: work requests complete as flushed, calls return.
func (e *engine) finish() {
	why := e.failed
	if why == nil {
		why = verbs.ErrClosed
	}
	e.dev.err.CompareAndSwap(nil, &why)
	e.posts.mu.Lock()
	e.posts.closed = true
	e.posts.mu.Unlock()
	for e.posts.any.Load() {
		e.takePosts()
	}
	for x := range e.qps.All() {
		_ = x.setState(verbs.StateErr) // refused in RESET: nothing to flush
		x.publish()
		release(e.unroute(x)) // no other thread would: this one ends
		e.leaveRails(x)
	}
	e.publishCompletions()
	e.calls.mu.Lock()
	e.calls.closed = true
	list := e.calls.waiting
	e.calls.mu.Unlock()
	for _, f := range list {
		f()
	}
	for r := range e.rails {
		r.end()
	}
	e.dev.ended(why)
}
