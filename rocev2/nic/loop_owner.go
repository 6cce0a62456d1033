// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"context"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/nic/internal/loop"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Loop ownership: which thread runs the engine's loop is decided by package loop, which
// has the states and invariants as a table. This file is what it asks the runner.

// loopRunner is the runner as package loop sees it.
type loopRunner struct{ *runner }

var _ loop.Loop = loopRunner{}

func (l loopRunner) Iterate() int { return l.iterate() }
func (l loopRunner) Began() int64 { return int64(l.core.Now()) }
func (l loopRunner) Clock() int64 { return int64(l.clock.now()) }
func (l loopRunner) SleptLong()   { l.checkSockets() }
func (l loopRunner) Ending() bool { return l.ending() }
func (l loopRunner) Finish()      { l.finish() }

// pollUntil runs the loop until there is something in c, or c is destroyed. It reports
// whether there is; it gives up early as loop.Driver.PollUntil does.
func (e *runner) pollUntil(ctx context.Context, c *CQ) bool {
	return e.driver.PollUntil(ctx, func() bool { return c.Len() > 0 || c.users.ended() }) && c.Len() > 0
}

// spins is how often an owner that does not sleep looks for packets and work between two
// iterations: some 500 ns, which packets then do not spend waiting for half an empty one.
const spins = 64

func (l loopRunner) Spin() bool {
	for range spins {
		if l.posts.any.Load() || l.calls.any.Load() || l.feeder != nil && l.feeder.Waiting() {
			return true
		}
		for _, r := range l.rails {
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
func (l loopRunner) IdleWait(n int) (d time.Duration, maskRX bool) {
	if n > 0 {
		l.lastWork = l.core.Now()
		return 0, false
	}
	if l.kicking() {
		return whileSending, true
	}
	switch {
	case time.Duration(l.core.Now()-l.lastWork) < l.dev.opts.Spin:
		return 0, false
	case l.core.FramesExhausted() || l.pendingKick:
		return whileSending, true
	}
	return l.untilNext(l.clock.now()), false
}

func (l loopRunner) NothingPending() bool {
	return !l.posts.any.Load() && !l.calls.any.Load() && !l.replied() && !l.stop.Load() && !l.dev.gone.Load() &&
		(l.feeder == nil || l.feeder.Sleep())
}

func (l loopRunner) Urgent() bool { return l.stop.Load() || l.dev.gone.Load() || l.calls.any.Load() }

// ending reports that the engine's thread is to finish.
func (e *runner) ending() bool { return e.failed != nil || e.stop.Load() }

// finish ends everything: work requests complete as flushed, calls return.
func (e *runner) finish() {
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
	for x := range e.core.QPs {
		release(e.core.EndQP(x)) // no other thread would: this one ends
	}
	e.publishCompletions()
	e.calls.mu.Lock()
	e.calls.closed = true
	list := e.calls.waiting
	e.calls.mu.Unlock()
	for _, f := range list {
		f()
	}
	for _, r := range e.rails {
		r.end()
	}
	e.dev.ended(why)
}
