// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// fakeLoop counts work that goroutines leave, and who runs it.
type fakeLoop struct {
	t        *testing.T
	start    time.Time
	idle     time.Duration // IdleWait after an iteration without work
	inside   atomic.Int32  // owners inside an iteration
	work     atomic.Int64  // left and not done
	urgent   atomic.Int64  // part of the work that cannot wait
	stop     atomic.Bool
	finished chan struct{}

	began      int64 // the owner's
	iterations int
	done       atomic.Int64
}

func newFakeLoop(t *testing.T) (*fakeLoop, *Driver) {
	l := &fakeLoop{t: t, start: time.Now(), idle: LongSleep / 4, finished: make(chan struct{})}
	d := new(Driver)
	if err := d.Init(l); err != nil {
		t.Fatal(err)
	}
	return l, d
}

func (l *fakeLoop) Iterate() int {
	if n := l.inside.Add(1); n != 1 {
		l.t.Errorf("%d owners", n)
	}
	defer l.inside.Add(-1)
	l.began = l.Clock()
	l.iterations++
	l.urgent.Store(0)
	n := l.work.Swap(0)
	l.done.Add(n)
	return int(n)
}

func (l *fakeLoop) IdleWait(n int) (time.Duration, bool) {
	if n > 0 {
		return 0, false
	}
	return l.idle, false
}

func (l *fakeLoop) Began() int64         { return l.began }
func (l *fakeLoop) Clock() int64         { return int64(time.Since(l.start)) + 1e9 }
func (l *fakeLoop) Spin() bool           { return l.work.Load() > 0 }
func (l *fakeLoop) SleptLong()           {}
func (l *fakeLoop) Ending() bool         { return l.stop.Load() }
func (l *fakeLoop) Finish()              { close(l.finished) }
func (l *fakeLoop) NothingPending() bool { return l.work.Load() == 0 && !l.stop.Load() }
func (l *fakeLoop) Urgent() bool         { return l.urgent.Load() > 0 || l.stop.Load() }

func (l *fakeLoop) end(d *Driver) {
	l.stop.Store(true)
	d.Call()
	testkit.Receive(l.t, "the thread ends", l.finished)
	d.runMu.Lock() // Run has unlocked it
	ended := d.ended
	d.runMu.Unlock()
	if !ended {
		l.t.Error("the thread has not ended")
	}
	d.Close()
}

func (l *fakeLoop) wait(n int64, why string) {
	l.t.Helper()
	testkit.Eventually(l.t, fmt.Sprintf("%d done: %s", n, why), func() bool { return l.done.Load() >= n })
}

// Work that is left while the thread sleeps, or is about to, is done long before the sleep
// would end (invariant 2).
func TestWake(t *testing.T) {
	l, d := newFakeLoop(t)
	l.idle = time.Hour
	go d.Run()
	for i := range int64(200) {
		l.work.Add(1)
		d.Wake()
		l.wait(i+1, "thread alone")
	}
	l.end(d)
}

// The thread does what callers leave behind when they stop coming (invariant 3), and after a
// call at once.
func TestThreadTakesOver(t *testing.T) {
	l, d := newFakeLoop(t)
	l.idle = time.Hour
	go d.Run()
	total := int64(0)
	for range 20 {
		for begin := time.Now(); time.Since(begin) < time.Millisecond; {
			d.PollOnce()
		}
		total++
		l.work.Add(1)
		d.Wake()
		l.wait(total, "no caller comes back")
		d.PollOnce()
		total++
		l.urgent.Add(1)
		l.work.Add(1)
		d.Call()
		l.wait(total, "a call")
	}
	l.end(d)
}

// Many callers and the thread: one owner at a time (invariant 1), and no work is lost.
func TestOneOwner(t *testing.T) {
	l, d := newFakeLoop(t)
	go d.Run()
	const callers, each = 4, 2000
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for range each {
				l.work.Add(1)
				d.Wake()
				if i%2 == 0 {
					d.PollOnce()
				} else {
					d.PollUntil(t.Context(), func() bool { return l.work.Load() == 0 })
				}
			}
		})
	}
	all.Wait()
	l.wait(callers*each, "callers have left")
	l.end(d)
	if d.PollOnce() || d.PollUntil(t.Context(), func() bool { return true }) {
		t.Error("a caller runs a loop that has ended")
	}
}

// A caller returns at the end of its context, when nothing happens, and when the loop ends.
func TestPollUntilEnds(t *testing.T) {
	l, d := newFakeLoop(t)
	never := func() bool { return false }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if !d.PollUntil(ended, never) || l.iterations != 1 {
		t.Errorf("a context that has ended: %d iterations, want 1", l.iterations)
	}
	begin := time.Now()
	if !d.PollUntil(t.Context(), never) || time.Since(begin) < callerPatience/2 {
		t.Errorf("it gives up after %v", time.Since(begin))
	}
	d.runMu.Lock()
	if d.PollOnce() {
		t.Error("two owners")
	}
	d.runMu.Unlock()
	go d.Run()
	l.end(d)
}

// A caller that comes back at once is expected, one that was away is not.
func TestExpected(t *testing.T) {
	l, d := newFakeLoop(t)
	d.callerExit.Store(l.Clock() - 10*callerGap)
	if d.PollOnce(); d.expectCaller.Load() || d.callersRun() {
		t.Error("expected after a long absence")
	}
	d.callerExit.Store(l.Clock() + int64(time.Hour)) // no machine is too slow for that
	if d.PollOnce(); !d.expectCaller.Load() {
		t.Error("not expected although it came back at once")
	}
	l.urgent.Store(1)
	if d.callersRun() {
		t.Error("the thread stays parked although work cannot wait")
	}
	d.Close()
}

func TestNoAllocations(t *testing.T) {
	l, d := newFakeLoop(t)
	l.idle = 0
	ctx, done := t.Context(), func() bool { return true }
	if n := testing.AllocsPerRun(100, func() { d.PollOnce(); d.PollUntil(ctx, done); d.Wake() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	d.Close()
}
