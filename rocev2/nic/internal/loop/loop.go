// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	_ "github.com/softroce/softroce-xdp/internal/platform" // 64-bit Linux only
)

// Loop is what a Driver runs. The owner of the loop calls its methods, except for
// NothingPending and Urgent, which any goroutine may call. Times are of CLOCK_MONOTONIC in ns.
type Loop interface {
	// Iterate does what there is to do, within budgets, and returns how much that was.
	Iterate() int
	// Began is when the latest iteration began.
	Began() int64
	// Clock is the time now.
	Clock() int64
	// IdleWait is how long the owner may sleep after an iteration that did n things; 0: not
	// at all. maskRX: packets must not wake it.
	IdleWait(n int) (d time.Duration, maskRX bool)
	// Spin waits for work for a moment, and reports whether there is some.
	Spin() bool
	// SleptLong is called after a sleep of LongSleep or more.
	SleptLong()
	// Ending reports that the loop is to end, Finish ends it.
	Ending() bool
	Finish()

	// NothingPending reports that nobody has left work.
	NothingPending() bool
	// Urgent reports that work was left that cannot wait for callers to come back.
	Urgent() bool
}

const (
	// callerGap is how soon a caller must come back to be expected.
	callerGap = int64(50 * time.Microsecond)

	// parkTick is how often the thread looks whether callers still come, less often the
	// longer they do. parkMax is the longest that nobody runs the loop.
	parkTick = 200 * time.Microsecond
	parkMax  = 800 * time.Microsecond

	// callerPatience is how long a caller runs the loop while nothing happens at all, and
	// how late it sees the end of its context.
	callerPatience = time.Millisecond

	// shortIteration is how much an iteration may do to be over at once.
	shortIteration = 4

	// LongSleep is how long the thread sleeps before SleptLong is called.
	LongSleep = time.Second
)

// Driver runs a Loop. Its zero value is of no use before Init.
type Driver struct {
	loop Loop

	runMu sync.Mutex // lock whose holder owns the loop
	ended bool       // the thread has ended; under runMu

	callerPolling atomic.Bool   // a caller owns the loop
	expectCaller  atomic.Bool   // the last one is expected back at once
	callerExit    atomic.Int64  // time at which the last caller left
	callerWork    atomic.Uint64 // times that callers found something to do
	workSeen      uint64        // the thread's: callerWork when it decided to sleep

	thread, caller sleeper // sleepers that own the loop
	parked         sleeper // sleeper of the thread, while callers own the loop
}

// Init makes the driver of a loop; packets on the sockets fds wake its owner.
func (d *Driver) Init(loop Loop, fds ...int) error {
	d.loop = loop
	if err := errors.Join(d.thread.init(fds...), d.caller.init(fds...), d.parked.init()); err != nil {
		d.Close()
		return err
	}
	return nil
}

// Close frees what Init has opened. The thread has ended.
func (d *Driver) Close() {
	d.thread.close()
	d.caller.close()
	d.parked.close()
}

// Run is the loop's thread. It returns after Loop.Finish.
func (d *Driver) Run() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	// Timers of this thread are not to be joined with others': 50 us otherwise.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	still := func() bool { return d.callerWork.Load() == d.workSeen && d.loop.NothingPending() }
	tick := parkTick
	for {
		if d.callersRun() {
			d.parked.sleep(tick, true, d.callersRun)
			tick = min(2*tick, parkMax)
			continue
		}
		tick = parkTick
		d.runMu.Lock()
		if d.loop.Ending() {
			break
		}
		n := d.loop.Iterate()
		wait, maskRX := d.loop.IdleWait(n)
		if n == 0 && wait == 0 {
			d.loop.Spin()
		}
		d.workSeen = d.callerWork.Load()
		d.runMu.Unlock()
		if wait > 0 {
			d.thread.sleep(wait, maskRX, still)
			if wait >= LongSleep {
				d.runMu.Lock()
				d.loop.SleptLong()
				d.runMu.Unlock()
			}
		}
	}
	d.loop.Finish()
	d.ended = true
	d.runMu.Unlock()
}

// callersRun reports whether callers run the loop, so that the thread need not.
func (d *Driver) callersRun() bool {
	if d.loop.Urgent() {
		return false
	}
	return d.callerPolling.Load() || d.expectCaller.Load() && d.loop.Clock()-d.callerExit.Load() < callerGap
}

// enter makes the caller the owner if there is no other now. It must leave soon.
func (d *Driver) enter() bool {
	if !d.runMu.TryLock() {
		return false
	}
	if d.ended || d.loop.Ending() {
		d.runMu.Unlock()
		return false
	}
	d.callerPolling.Store(true)
	return true
}

// leave ends the caller's ownership. expect: it will be back at once. did: it found
// something to do, so that the thread, if it sleeps, does not know for how long it may.
func (d *Driver) leave(expect, did bool, now int64) {
	if d.expectCaller.Load() != expect {
		d.expectCaller.Store(expect)
	}
	d.callerExit.Store(now)
	if did {
		d.callerWork.Add(1)
	}
	d.callerPolling.Store(false)
	ending := d.loop.Ending()
	d.runMu.Unlock()
	if !expect || ending {
		d.parked.wake()
	}
	if did || ending {
		d.thread.wake()
	}
}

// cameBack reports whether the caller that has entered was away for a moment only.
func (d *Driver) cameBack() bool { return d.loop.Began()-d.callerExit.Load() < callerGap }

// PollOnce runs one iteration, for a goroutine that polls. False: somebody else owns the
// loop.
func (d *Driver) PollOnce() bool {
	if !d.enter() {
		return false
	}
	n := d.loop.Iterate()
	if n == 0 && d.cameBack() && d.loop.Spin() {
		n = d.loop.Iterate()
	}
	now := d.loop.Began() // reading the clock takes as long as an iteration without work
	if n > shortIteration {
		now = d.loop.Clock()
	}
	d.leave(d.cameBack(), n > 0, now)
	return true
}

// PollUntil runs the loop until done reports true. It gives up at the context's end, and
// when nothing happens. False: somebody else owns the loop.
func (d *Driver) PollUntil(ctx context.Context, done func() bool) bool {
	if !d.enter() {
		return false
	}
	n := d.loop.Iterate()
	expect, did, idle := d.cameBack(), n > 0, d.loop.Began()
	for !done() && !d.loop.Ending() {
		if n > 0 {
			did, idle = true, d.loop.Began()
		}
		if time.Duration(d.loop.Began()-idle) >= callerPatience || ctx.Err() != nil {
			expect = false
			break
		}
		if wait, maskRX := d.loop.IdleWait(n); wait > 0 {
			d.caller.sleep(min(wait, callerPatience), maskRX, d.loop.NothingPending)
		} else if n == 0 {
			d.loop.Spin()
		}
		n = d.loop.Iterate()
	}
	d.leave(expect, did || n > 0, d.loop.Clock())
	return true
}

// Wake ends the sleep of the loop's owner. Who calls it has left work before. If callers
// run the loop, they find it when they come back.
func (d *Driver) Wake() {
	d.caller.wake()
	d.thread.wake()
}

// Call is Wake for work that cannot wait for callers.
func (d *Driver) Call() {
	d.Wake()
	d.parked.wake()
}
