// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"sync"
	"testing"
	"time"
)

// engineTime has processes cost the engine's thread what they may for some time, in parts, and returns the sum.
func engineTime(now *time.Duration, length, part time.Duration, p ...*Process) (sum time.Duration) {
	next := make([]time.Duration, len(p))
	for end := *now + length; *now < end; *now += 100 * time.Microsecond {
		for i := range p {
			if next[i] <= *now {
				next[i] = *now + p[i].SpendEngine(*now, part)
				sum += part
			}
		}
	}
	return sum
}

// A process may cost a hundredth of the engine's thread, and all processes of a user two hundredths, also those that begin
// later.
func TestEngineTime(t *testing.T) {
	a := New(Defaults())
	now := time.Hour
	const length, part = 10 * time.Second, 10 * time.Microsecond
	p := opened(t, a, now, 1)
	most := (length + engineSaved) / engineShare
	if got := engineTime(&now, length, part, p); got > most+part || got < most-50*part {
		t.Errorf("a process costs %v of %v, want %v", got, length, most)
	}
	all := []*Process{p, opened(t, a, now, 1), opened(t, a, now, 1), opened(t, a, now, 1)}
	most = (length + userEngineSaved) / userEngineShare
	if got := engineTime(&now, length, part, all...); got > most+4*part || got < most-50*part {
		t.Errorf("the processes of a user cost %v of %v, want %v", got, length, most)
	}
	for _, p := range all {
		p.Close()
	}
	later := []*Process{opened(t, a, now, 1), opened(t, a, now, 1), opened(t, a, now, 1)}
	if got := engineTime(&now, time.Second, part, later...); got > time.Second/userEngineShare+4*part {
		t.Errorf("new processes of the user cost %v of a second", got)
	}
	if wait := opened(t, a, now, 2).SpendEngine(now, part); wait != 0 {
		t.Errorf("another user waits %v", wait)
	}
}

// Messages and the engine's thread take from one budget: a process at its limit of the engine's thread has half of its
// messages, whatever limit of messages it has.
func TestOneBudget(t *testing.T) {
	for _, calls := range []uint64{10, 1000, 100_000} {
		a := rates(calls, 10*calls)
		now := time.Hour
		p := opened(t, a, now, 1)
		p.Spend(now, time.Duration(calls)*Call*time.Duration(Saved/time.Second)) // what was saved
		sent, nextCall, nextEngine := uint64(0), now, now
		const seconds = 20
		for end := now + seconds*time.Second; now < end; now = min(nextCall, nextEngine) {
			if now >= nextCall {
				nextCall = now + max(time.Microsecond, p.Spend(now, Call))
				sent++
			}
			if now >= nextEngine {
				nextEngine = now + max(time.Millisecond, p.SpendEngine(now, 10*time.Microsecond))
			}
		}
		if want := calls * seconds / 2; sent > want+want/50+1 || sent < want-want/50-1 {
			t.Errorf("%d messages in %d s at a limit of %d, want %d", sent, seconds, calls, want)
		}
	}
}

// A process that costs the engine's thread much at once waits for it alone; another process of its user does not.
func TestEngineTimeOfSibling(t *testing.T) {
	a := New(Defaults())
	const iteration = 2 * time.Millisecond // more than all rings of a process
	p, other := opened(t, a, 0, 1), opened(t, a, 0, 1)
	for now := time.Duration(0); now < 10*time.Second; {
		wait := p.SpendEngine(now, iteration)
		if wait < iteration*engineShare-engineSaved {
			t.Fatalf("%v cost a wait of %v", iteration, wait)
		}
		if wait := other.SpendEngine(now, time.Microsecond); wait != 0 {
			t.Fatalf("another process waits %v", wait)
		}
		now += wait
	}
}

// A budget is full when both of its parts are.
func TestBudgetIsFull(t *testing.T) {
	var b budget
	b.spendEngine(0, time.Millisecond, userEngineShare, userEngineSaved)
	for at, want := range map[time.Duration]bool{0: false, 30 * time.Millisecond: false, 50 * time.Millisecond: true} {
		if b.isFull(at) != want {
			t.Errorf("%v after 50 ms were taken, it is full: %v", at, !want)
		}
	}
}

// Nothing is lost if the engine's thread and a goroutine count at the same time.
func TestSpendConcurrently(t *testing.T) {
	const each = 10_000
	p := opened(t, New(Defaults()), 0, 1)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range each {
				p.Spend(0, Call)
			}
		})
		all.Go(func() {
			for range each {
				p.SpendEngine(0, time.Microsecond)
			}
		})
	}
	all.Wait()
	want := 2 * each * (time.Second/1000 + time.Microsecond*engineShare/2)
	if got := time.Duration(p.budget.whole.full.Load()); got != want {
		t.Errorf("%v were counted, want %v", got, want)
	}
}
