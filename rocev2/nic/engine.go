// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic/wheel"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

// engine is the thread that owns all queue pairs. What other goroutines want comes
// by posts (post.go) and calls.
type engine struct {
	dev   *Device
	wire  Wire
	clock clock
	now   qp.Time // of this turn
	live  Live

	socks   []*sock
	senders []*sock // those of them that can send
	kick    kicker
	own     ownQueue

	qps        qpTable
	dests      map[netip.Addr]*dest
	datagrams  dest // where queue pairs of UD line up before their first packet
	ready      destRing
	touched    []*QP // that something happened to in this turn
	qpTimers   wheel.Wheel[*QP]
	destTimers wheel.Wheel[*dest]
	blocked    bool // the kernel has all transmit frames
	unsent     bool // it left some of them, and there is no second thread
	overruns   []*CQ

	posts   posts
	calls   calls
	active  []*dest // to be reported
	sync    syncer
	restart qp.Time // when there was last something to do

	// Used again and again, so that nothing is allocated.
	out     qp.Outbound
	stamp   rocev2.Stamp
	scratch []byte // for packets of several frames

	count   engineCounters
	qpCount qp.Counters
	held    *qp.HoldPool

	asleep atomic.Bool
	bell   int // eventfd
	poll   []unix.PollFd
	stop   atomic.Bool
	failed error
}

// sock is one AF_XDP socket with what the engine keeps of it.
type sock struct {
	xsk    *xsk.Socket
	batch  *xsk.Batch
	pushed int // packets since the last submit
}

// calls are functions that other goroutines have the engine's thread run.
type calls struct {
	mu      sync.Mutex
	waiting []func()
	any     atomic.Bool
	closed  bool
}

// do runs f in the engine's thread, after everything posted before, and waits for
// it. false: the engine has ended, f did not run.
func (e *engine) do(f func()) bool {
	done := make(chan struct{})
	e.calls.mu.Lock()
	if e.calls.closed {
		e.calls.mu.Unlock()
		return false
	}
	e.calls.waiting = append(e.calls.waiting, func() { f(); close(done) })
	e.calls.any.Store(true)
	e.calls.mu.Unlock()
	e.wake()
	<-done
	return true
}

// wake ends the engine's sleep. Whoever calls it has left something to do before.
func (e *engine) wake() {
	if e.asleep.Load() && e.asleep.CompareAndSwap(true, false) {
		ring(e.bell)
	}
}

// run is the engine's loop, in a thread of its own, until stop or a failure.
func (e *engine) run() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	// Timers of this thread are not to be joined with others': 50 us otherwise.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	for !e.stop.Load() && e.failed == nil {
		e.blocked = false
		e.now = e.clock.now()
		n := e.receive()
		n += e.takeCalls()
		n += e.takePosts()
		e.qpTimers.Advance(int64(e.now), e.expire)
		e.destTimers.Advance(int64(e.now), e.resume)
		e.settle()
		n += e.transmit()
		e.settle()
		e.submit()
		e.closeOverruns()
		e.report()
		if n > 0 {
			e.restart = e.now
		} else {
			e.rest()
		}
		if e.dev.gone.Load() {
			e.failed = ErrGone
		}
	}
	e.finish()
}

// finish ends everything: work requests complete as flushed, nobody waits for the
// engine any more.
func (e *engine) finish() {
	why := e.failed
	if why == nil {
		why = ErrClosed
	}
	e.dev.err.CompareAndSwap(nil, &why)
	e.posts.mu.Lock()
	e.posts.closed = true
	e.posts.mu.Unlock()
	for e.posts.any.Load() {
		e.takePosts()
	}
	e.qps.all(func(x *QP) {
		_ = x.q.Modify(qp.Attr{State: qp.Err}, qp.MaskState) // refused in RESET and INIT: nothing to flush
		x.publish()
		if x.path != nil {
			x.path.Release()
		}
	})
	e.calls.mu.Lock()
	e.calls.closed = true
	list := e.calls.waiting
	e.calls.mu.Unlock()
	for _, f := range list {
		f()
	}
	close(e.kick.wake)
	close(e.sync.wake)
	<-e.kick.ended
	<-e.sync.ended
	e.dev.ended(why)
}

// overrun notes that a completion was lost; closeOverruns draws the conclusion once
// no queue pair is at work (IBTA 10.8.4).
func (e *engine) overrun(c *CQ) { e.overruns = append(e.overruns, c) }

func (e *engine) closeOverruns() {
	for len(e.overruns) > 0 {
		c := e.overruns[0]
		e.overruns = e.overruns[1:]
		e.dev.event(Event{Type: EventCQError, CQ: c})
		e.qps.all(func(x *QP) {
			if x.send != c && x.recv != c {
				return
			}
			if x.q.Modify(qp.Attr{State: qp.Err}, qp.MaskState) == nil {
				e.dev.event(Event{Type: EventQPFatal, QP: x})
				e.touch(x)
			}
		})
	}
}

// expire is called for a queue pair whose timer is due, or was when it was set.
func (e *engine) expire(x *QP) {
	if at := x.q.Deadline(); at == 0 || at > e.now {
		e.rearm(x)
		return
	}
	x.q.Expire(e.now)
	e.touch(x)
}

// rearm sets the timer of a queue pair. One that is too early stays: most deadlines
// move on with every packet, and it is cheaper to look again than to move them.
func (e *engine) rearm(x *QP) {
	at := int64(x.q.Deadline())
	if at != 0 && (x.timer.At() == 0 || at < x.timer.At()) {
		e.qpTimers.Set(&x.timer, at)
	}
}

// touch has settle look at a queue pair in this turn.
func (e *engine) touch(x *QP) {
	if !x.touched {
		x.touched = true
		e.touched = append(e.touched, x)
	}
}

// takeCalls runs what other goroutines want. What they posted before comes first.
func (e *engine) takeCalls() int {
	if !e.calls.any.Load() {
		return 0
	}
	e.calls.mu.Lock()
	list := e.calls.waiting
	e.calls.waiting = nil
	e.calls.any.Store(false)
	e.calls.mu.Unlock()
	e.takePosts()
	for _, f := range list {
		f()
	}
	return len(list)
}

// rest is what the engine does when there is nothing to do: it looks again for a
// while, since what is waited for often comes soon, and then sleeps.
func (e *engine) rest() {
	idle := e.clock.now() - e.restart
	switch {
	case idle < qp.Time(e.dev.opts.Spin):
		return
	case e.blocked || e.unsent:
		// The kernel works on what we gave it, without telling when it is done.
		e.sleep(20 * time.Microsecond)
		return
	}
	e.sleep(e.untilNext())
}

// untilNext is the time to the next thing that is due by itself.
func (e *engine) untilNext() time.Duration {
	next := e.now + qp.Time(maxSleep)
	for _, at := range [...]int64{e.qpTimers.Next(), e.destTimers.Next()} {
		if at != 0 {
			next = min(next, qp.Time(at))
		}
	}
	if len(e.active) > 0 {
		next = min(next, e.sync.due)
	}
	return time.Duration(next - e.clock.now())
}

// maxSleep is how often an idle engine looks whether its interface is there.
const maxSleep = time.Second

func (e *engine) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	e.asleep.Store(true)
	// Whoever saw us awake has left its work before: look once more.
	if !e.posts.any.Load() && !e.calls.any.Load() && !e.sync.done.Load() && !e.stop.Load() && !e.dev.gone.Load() {
		ts := unix.NsecToTimespec(int64(d))
		n, err := unix.Ppoll(e.poll, &ts, nil)
		if err == nil && n > 0 && e.poll[0].Revents != 0 {
			var b [8]byte
			_, _ = unix.Read(e.bell, b[:])
		}
		if n == 0 && d >= maxSleep {
			e.checkSockets()
		}
	}
	e.asleep.Store(false)
}

// checkSockets learns of an interface that was deleted: the kernel wakes nobody up
// for that.
func (e *engine) checkSockets() {
	for _, s := range e.socks {
		if _, err := s.xsk.Wait(0); errors.Is(err, xsk.ErrGone) {
			e.failed = err
		}
	}
}
