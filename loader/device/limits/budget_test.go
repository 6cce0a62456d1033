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

// iteration is the most that a process costs in an iteration of the engine.
const iteration = 3400 * time.Microsecond

// A process that costs the engine's thread much at once waits for it alone; another process of its user does not.
func TestEngineTimeOfSibling(t *testing.T) {
	a := New(Defaults())
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

// Signals to a process do not wait for what many other processes of its user cost the engine's thread. The others cost what
// the user may, however many they are, and nothing waits for them for long when they have ended.
func TestSignalsOfSibling(t *testing.T) {
	a := New(Defaults())
	honest := opened(t, a, 0, 1)
	floods := make([]*Process, 63)
	next := make([]time.Duration, len(floods))
	for i := range floods {
		floods[i] = opened(t, a, 0, 1)
	}
	const length = 100 * time.Second
	sum, now := time.Duration(0), time.Duration(0)
	for ; now < length; now += time.Millisecond {
		if wait := honest.SpendSignal(now, 10*time.Microsecond); wait != 0 {
			t.Fatalf("after %v a signal waits %v", now, wait)
		}
		for i, p := range floods {
			if next[i] <= now {
				next[i] = now + p.SpendEngine(now, iteration)
				sum += iteration
			}
		}
	}
	if most := (length+userEngineSaved+engineBacklog)/userEngineShare + iteration; sum > most {
		t.Errorf("the processes of a user cost %v of %v, want at most %v", sum, length, most)
	}
	for range 1000 { // as if each was a new process
		floods[0].SpendEngine(now, iteration)
	}
	for _, p := range floods {
		p.Close()
	}
	if wait := opened(t, a, now, 1).SpendEngine(now, 0); wait < time.Second || wait > engineBacklog {
		t.Errorf("a new process waits %v for those that have ended, want at most %v", wait, engineBacklog)
	}
}

// Signals of all processes of a user take what the user has saved of the engine's thread, and half of its messages. They
// suspend no process of the user.
func TestSignalsOfUser(t *testing.T) {
	a := rates(1000, 1000)
	all := make([]*Process, 8)
	for i := range all {
		all[i] = opened(t, a, 0, 1)
	}
	const length, cost = 10 * time.Second, 200 * time.Nanosecond
	all[0].Spend(0, 30_000*Call) // what was saved
	now := time.Duration(0)
	for ; now < length; now += 20 * time.Microsecond {
		for i, p := range all {
			if wait := p.SpendSignal(now, cost); wait != 0 {
				t.Fatalf("process %d, which gets 50 000 signals a second, waits %v", i, wait)
			}
		}
	}
	if wait := all[0].user.budget.whole.full.Load() - int64(now) - int64(Saved); wait > int64(time.Second) {
		t.Errorf("messages wait %v for signals", time.Duration(wait))
	}
	p := opened(t, a, now, 1)
	if wait := p.SpendEngine(now, 0); wait != 0 {
		t.Errorf("a new process waits %v for signals to others", wait)
	}
	const part = 100 * time.Microsecond
	if wait := p.SpendEngine(now, part); wait < part*userEngineShare-time.Millisecond {
		t.Errorf("ring checks wait %v: signals have not taken what the user has saved", wait)
	}
}

// Long signals to a user's processes, however many they are, take no more than a part of the engine's thread. Those to
// processes of another user do not wait for them.
func TestLongSignals(t *testing.T) {
	const length, cost = 10 * time.Second, time.Millisecond
	for _, n := range []int{1, 4, 64} {
		a := New(Defaults())
		next := map[*Process]time.Duration{}
		for range n {
			next[opened(t, a, 0, 1)] = 0
		}
		sum := time.Duration(0)
		for now := time.Duration(0); now < length; now += 100 * time.Microsecond {
			for p, at := range next {
				if at <= now {
					sum += cost
					next[p] = now + p.SpendLongSignal(now, cost)
				}
			}
		}
		if most := (length+longSignalSaved)/longSignalShare + time.Duration(n)*cost; sum > most {
			t.Errorf("long signals to %d processes take %v of %v, want at most %v", n, sum, length, most)
		}
		if wait := opened(t, a, length, 2).SpendLongSignal(length, cost); wait != 0 {
			t.Errorf("a long signal to another user waits %v", wait)
		}
	}
}

// A user that has processes is not removed with those that have ended, however many they are: its limits stay.
func TestLiveUserStays(t *testing.T) {
	l := Defaults()
	l.Process[QPs], l.User[QPs] = 1, 1
	a := New(l)
	p := opened(t, a, 0, 1)
	if err := p.Acquire(Use{QPs, 1}); err != nil {
		t.Fatal(err)
	}
	for i := range uint32(200) {
		opened(t, a, 0, 10+i).Close()
	}
	if got := a.User(1); len(got) != 2 {
		t.Errorf("the user has %v, want a process and a queue pair", got)
	}
	if opened(t, a, 0, 1).Acquire(Use{QPs, 1}) == nil {
		t.Error("a second process has a queue pair beyond the limit of the user")
	}
}

// A budget is full when both of its parts are.
func TestBudgetIsFull(t *testing.T) {
	var b budget
	b.spendEngine(0, time.Millisecond, userEngineShare, userEngineSaved, 0)
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
