// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Who drives the engine. Everything of it belongs to whoever holds the baton, and a
// turn is what the holder does with it. The engine has a thread for that. But an
// application that polls or waits for a completion is a guest: it takes turns
// itself, and a message goes out and its answer comes in without another thread to
// be woken up, which takes longer than all the rest.
//
//	thread:  turn ─► turn ─► sleep on the sockets ─► turn ...      nobody else there
//	guest:   PostSend ─► Poll: turn ─► turn ─► turn: completion    the thread stands by
//
// While guests come back at once each time, the thread stays out of their way and
// only looks from time to time whether they still do. A guest that was away for
// longer calls it when it leaves, so that peers are answered meanwhile.

const (
	// promptGap is how soon a guest must come back to be relied on.
	promptGap = int64(50 * time.Microsecond)

	// standbyTick is how often the thread looks whether guests still come, less often
	// the longer they do. standbyLong is the longest that nobody drives.
	standbyTick = 200 * time.Microsecond
	standbyLong = 800 * time.Microsecond

	// guestPatience is how long a guest drives while nothing happens at all, and
	// how late it sees the end of its context.
	guestPatience = time.Millisecond
)

// run is the engine's thread, until stop or a failure.
func (e *engine) run() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	// Timers of this thread are not to be joined with others': 50 us otherwise.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	still := func() bool { return e.visits.Load() == e.seen && e.quiet() }
	tick := standbyTick
	for {
		if e.attended() {
			e.standby.sleep(tick, true, e.attended)
			tick = min(2*tick, standbyLong)
			continue
		}
		tick = standbyTick
		e.baton.Lock()
		if e.ending() {
			break
		}
		n := e.turn()
		nap, deaf := e.nap(n)
		if n == 0 && nap == 0 {
			e.look()
		}
		e.seen = e.visits.Load()
		e.baton.Unlock()
		if nap > 0 {
			e.thread.sleep(nap, deaf, still)
			if nap >= maxSleep {
				e.baton.Lock()
				e.checkSockets()
				e.baton.Unlock()
			}
		}
	}
	e.finish()
	e.over = true
	e.baton.Unlock()
}

// attended reports whether guests look after the engine.
func (e *engine) attended() bool {
	if e.stop.Load() || e.dev.gone.Load() || e.calls.any.Load() {
		return false
	}
	return e.inside.Load() || e.prompt.Load() && int64(e.clock.now())-e.left.Load() < promptGap
}

// enter makes the caller the driver if there is no other now. It must leave soon.
func (e *engine) enter() bool {
	if !e.baton.TryLock() {
		return false
	}
	if e.over || e.ending() {
		e.baton.Unlock()
		return false
	}
	e.inside.Store(true)
	return true
}

// leave gives the baton back. relied: the guest will be there again at once. did: it
// found something to do, so that the thread, if it sleeps, does not know for how long
// it may.
func (e *engine) leave(relied, did bool, now qp.Time) {
	if e.prompt.Load() != relied {
		e.prompt.Store(relied)
	}
	e.left.Store(int64(now))
	if did {
		e.visits.Add(1)
	}
	e.inside.Store(false)
	over := e.ending()
	e.baton.Unlock()
	if !relied || over {
		e.standby.wake()
	}
	if did || over {
		e.thread.wake()
	}
}

// back reports whether the guest that has entered was away for a moment only.
func (e *engine) back() bool { return int64(e.now)-e.left.Load() < promptGap }

// looks is how often a driver that does not sleep looks for packets and work between
// two turns: some 500 ns, which packets then do not spend waiting for half an empty turn.
const looks = 64

// look reports whether there is something to do, and waits for it a moment.
func (e *engine) look() bool {
	for range looks {
		if e.posts.any.Load() || e.calls.any.Load() {
			return true
		}
		for _, s := range e.socks {
			if s.xsk.Arrived() {
				return true
			}
		}
	}
	return false
}

// shortTurn is how much a turn may do to be over at once.
const shortTurn = 4

// visit takes one turn, for a goroutine that polls. False: somebody else drives.
func (e *engine) visit() bool {
	if !e.enter() {
		return false
	}
	n := e.turn()
	if n == 0 && e.back() && e.look() {
		n = e.turn()
	}
	now := e.now // reading the clock takes as long as a turn without work
	if n > shortTurn {
		now = e.clock.now()
	}
	e.leave(e.back(), n > 0, now)
	return true
}

// attend drives until there is something in c. It gives up if somebody else drives,
// at the context's end, and when nothing happens.
func (e *engine) attend(ctx context.Context, c *CQ) bool {
	if !e.enter() {
		return false
	}
	n := e.turn()
	relied, did, idle := e.back(), n > 0, e.now
	for c.Len() == 0 && !e.ending() && !c.users.ended() {
		if n > 0 {
			did, idle = true, e.now
		}
		if time.Duration(e.now-idle) >= guestPatience || ctx.Err() != nil {
			relied = false
			break
		}
		if nap, deaf := e.nap(n); nap > 0 {
			e.guest.sleep(min(nap, guestPatience), deaf, e.quiet)
		} else if n == 0 {
			e.look()
		}
		n = e.turn()
	}
	e.leave(relied, did || n > 0, e.clock.now())
	return c.Len() > 0
}

// whileSending is how long the driver sleeps while the kernel works on what it was
// given, without telling when it is done.
const whileSending = 20 * time.Microsecond

// nap is how long the driver may sleep after a turn that found n things to do. It
// looks again for a while, since what is waited for often comes soon.
//
// deaf: packets must not wake it. To poll a socket in copy mode is to transmit, so
// that the driver would do the second thread's work, or wait for its lock; and
// where much is sent, answers are better taken in batches.
func (e *engine) nap(n int) (d time.Duration, deaf bool) {
	if n > 0 {
		e.restart = e.now
		return 0, false
	}
	if e.kick.busy.Load() && !e.kick.down.Load() {
		return whileSending, true
	}
	switch {
	case time.Duration(e.now-e.restart) < e.dev.opts.Spin:
		return 0, false
	case e.blocked || e.unsent:
		return whileSending, true
	}
	return e.untilNext(e.clock.now()), false
}

// quiet reports that nobody has left anything to do.
func (e *engine) quiet() bool {
	return !e.posts.any.Load() && !e.calls.any.Load() && !e.sync.done.Load() && !e.stop.Load() && !e.dev.gone.Load()
}

// wake ends the sleep of whoever drives. Who calls it has left something to do
// before. If guests look after the engine, they find it when they come back.
func (e *engine) wake() {
	e.guest.wake()
	e.thread.wake()
}

// call is wake for what cannot wait for guests.
func (e *engine) call() {
	e.wake()
	e.standby.wake()
}

func (e *engine) closeSleepers() {
	e.thread.close()
	e.guest.close()
	e.standby.close()
}
