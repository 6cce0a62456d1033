// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic/qpn"
	"github.com/softroce/softroce-xdp/rocev2/nic/sched"
	"github.com/softroce/softroce-xdp/rocev2/nic/wheel"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

// engine owns all queue pairs. It belongs to one thread at a time (drive.go). What
// other goroutines want comes by posts (post.go) and calls.
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

	qps        qpn.Table[QP]
	dests      map[netip.Addr]*dest
	datagrams  dest              // where queue pairs of UD line up before anything was posted
	ready      sched.List[*dest] // in service
	socketFull sched.List[*dest] // in service, whose socket was full in this iteration
	touched    []*QP             // that something happened to in this turn
	watch      watchLine
	qpTimers   wheel.Wheel[*QP]
	destTimers wheel.Wheel[*dest]
	blocked    bool // the kernel has all transmit frames of a socket
	unsent     bool // it left some of them, and there is no second thread
	backlog    bool // more may have arrived than this turn has taken
	deferred   int  // turns since the timers of queue pairs were looked at
	overruns   []*CQ
	news       []*CQ // with completions that were not shown

	posts   posts
	calls   calls
	active  []*dest // to be reported
	sync    syncer
	restart qp.Time // when there was last something to do

	// Used again and again, so that nothing is allocated.
	out     qp.Outbound
	stamp   rocev2.Stamp
	scratch []byte // for packets of several frames
	onTimer func(*QP)
	onDest  func(*dest)

	credit *credits // nil without Options.PreCredit

	count   engineCounters
	qpCount qp.Counters
	held    *qp.HoldPool

	// See drive.go. All above and failed and over belong to the holder of the baton.
	baton  sync.Mutex
	failed error
	over   bool // the thread has ended
	stop   atomic.Bool
	inside atomic.Bool   // a guest drives
	prompt atomic.Bool   // the last one is expected back at once
	left   atomic.Int64  // when it left
	visits atomic.Uint64 // of guests that found something to do
	seen   uint64        // the thread's: visits that its nap knows of

	thread, guest sleeper // while they drive
	standby       sleeper // of the thread, while guests do
}

// sock is one AF_XDP socket with what the engine keeps of it.
type sock struct {
	xsk    *xsk.Socket
	batch  *xsk.Batch
	pushed int // packets since the last submit
}

// calls are functions that other goroutines have the engine's driver run.
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
	e.call()
	<-done
	return true
}

// turn does everything that there is to do now, within its budgets, and returns how
// much that was. The caller has the baton.
func (e *engine) turn() int {
	e.blocked, e.backlog = false, false
	e.now = e.clock.now()
	n := e.receive()
	n += e.takeCalls()
	n += e.takePosts()
	if e.backlog && e.deferred < maxDeferred {
		e.deferred++
	} else {
		e.deferred = 0
		e.endWatch()
		e.qpTimers.Advance(int64(e.now), e.onTimer)
	}
	e.destTimers.Advance(int64(e.now), e.onDest)
	e.settle()
	n += e.transmit()
	e.settle()
	if e.credit != nil {
		e.credit.turn(e)
	}
	e.submit()
	e.closeOverruns()
	e.report()
	if e.dev.gone.Load() {
		e.failed = ErrGone
	}
	return n
}

// maxDeferred is for how many turns timers of queue pairs wait while more has arrived than
// one takes: the answer that one waits for may be there. In so many a socket's frames are
// handled twice over.
const maxDeferred = 64

// ending reports that the engine's thread is to finish.
func (e *engine) ending() bool { return e.failed != nil || e.stop.Load() }

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
	for x := range e.qps.All() {
		_ = x.q.Modify(qp.Attr{State: qp.Err}, qp.MaskState) // refused in RESET: nothing to flush
		x.publish()
		release(e.unroute(x)) // this thread ends; nobody else will
	}
	e.show()
	e.calls.mu.Lock()
	e.calls.closed = true
	list := e.calls.waiting
	e.calls.mu.Unlock()
	for _, f := range list {
		f()
	}
	e.kick.stop.Store(true)
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
	full := e.overruns
	e.overruns = nil // what it causes is for the next turn
	for _, c := range full {
		e.dev.event(Event{Type: EventCQError, CQ: c})
		for x := range e.qps.All() {
			if x.send != c && x.recv != c {
				continue
			}
			if x.q.Modify(qp.Attr{State: qp.Err}, qp.MaskState) == nil {
				x.publish() // who gets the event sees the state
				e.dev.event(Event{Type: EventQPFatal, QP: x})
				e.touch(x)
			}
		}
	}
}

// expire is called for a queue pair whose timer is due, or was when it was set.
func (e *engine) expire(x *QP) {
	if at := x.q.Deadline(); at == 0 || at > e.now {
		e.rearm(x)
		return
	}
	before := e.qpCount.Timeouts
	x.q.Expire(e.now)
	if x.credit != nil {
		e.credit.expired(e, x, e.qpCount.Timeouts != before)
	}
	e.touch(x)
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

// untilNext is the time to the next thing that is due by itself.
func (e *engine) untilNext(now qp.Time) time.Duration {
	next := now + qp.Time(maxSleep)
	for _, at := range [...]int64{int64(e.watch.next()), e.qpTimers.Next(), e.destTimers.Next()} {
		if at != 0 {
			next = min(next, qp.Time(at))
		}
	}
	if len(e.active) > 0 {
		next = min(next, e.sync.due)
	}
	if e.credit != nil {
		if at := e.credit.due(now); at != 0 {
			next = min(next, qp.Time(at))
		}
	}
	return time.Duration(next - now)
}

// maxSleep is how often an idle engine looks whether its interface is there.
const maxSleep = time.Second

// checkSockets learns of an interface that was deleted: the kernel wakes nobody up
// for that.
func (e *engine) checkSockets() {
	for _, s := range e.socks {
		if _, err := s.xsk.Wait(0); errors.Is(err, xsk.ErrGone) {
			e.failed = ErrGone
		}
	}
}
