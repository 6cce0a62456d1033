// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"testing"
	"time"
)

func rates(process, user uint64) *Accounts {
	l := Defaults()
	l.Process[Calls], l.User[Calls] = process, user
	return New(l)
}

func opened(t *testing.T, a *Accounts, now time.Duration, uid uint32) *Process {
	t.Helper()
	p, err := a.Open(now, uid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// attack makes calls one after the other as fast as it may for some time, and returns how many.
func attack(now *time.Duration, length time.Duration, p ...*Process) (n int) {
	next := make([]time.Duration, len(p))
	for i := range next {
		next[i] = *now
	}
	for end := *now + length; ; {
		first := 0
		for i := range p {
			if next[i] < next[first] {
				first = i
			}
		}
		if *now = next[first]; *now >= end {
			return n
		}
		next[first] = *now + p[first].Spend(*now, Call)
		n++
	}
}

// A process that makes calls without pause gets what was saved once, and its rate from then on.
func TestRateOfProcess(t *testing.T) {
	a := rates(1000, 10000)
	now := time.Hour
	p := opened(t, a, now, 1)
	if n := attack(&now, 100*time.Second, p); n < 130_000 || n > 130_001 {
		t.Errorf("%d calls in 100 s, want 100 s and 30 saved ones of 1000 each", n)
	}
	if wait := p.Spend(now, 2500*Call); wait < 2500*time.Millisecond || wait > 2502*time.Millisecond {
		t.Errorf("a call that counts 2500 takes %v", wait)
	}
	now += time.Hour
	if n := attack(&now, time.Second, p); n < 31_000 || n > 31_001 {
		t.Errorf("%d calls in a second after an hour, want 31000: more than the saved ones were kept", n)
	}
}

// All processes of a user together have the rate of the user, also those that begin later, and another
// user is not concerned.
func TestRateOfUser(t *testing.T) {
	a := rates(1000, 2000)
	now := time.Hour
	p := []*Process{opened(t, a, now, 1), opened(t, a, now, 1), opened(t, a, now, 1), opened(t, a, now, 1)}
	if n := attack(&now, 100*time.Second, p...); n < 260_000 || n > 260_004 {
		t.Errorf("%d calls, want 130 s of 2000", n)
	}
	for _, p := range p {
		p.Close()
	}
	for i := range uint32(1000) { // others, whose full buckets are removed
		opened(t, a, now, 10+i).Close()
	}
	again := opened(t, a, now, 1)
	if n := attack(&now, 10*time.Second, again); n < 19_990 || n > 20_001 {
		t.Errorf("%d calls of a new process in 10 s, want 20000: the rate of the user, of which nothing is saved", n)
	}
	other := opened(t, a, now, 2)
	if wait := other.Spend(now, 30_000*Call); wait != 0 {
		t.Errorf("another user waits %v", wait)
	}
}

// The memory for users that have ended is bounded: full buckets are removed.
func TestRatesAreForgotten(t *testing.T) {
	a := rates(1000, 2000)
	now := time.Hour
	for i := range uint32(10_000) {
		p := opened(t, a, now, i)
		p.Spend(now, Call)
		p.Close()
		now += time.Second
	}
	if n := len(a.users); n > 2*minSweep {
		t.Errorf("%d users of 10000 are known, of which the last is not full", n)
	}
}

// No number of calls overflows: more of them never wait shorter, up to the longest wait.
func TestRateExtremes(t *testing.T) {
	const longest = longest - Saved
	for _, per := range []uint64{0, 1, 1 << 40, 1<<64 - 1} {
		before := time.Duration(0)
		for _, n := range []uint64{0, 1, 1 << 30, 1 << 34, 1 << 35, 1 << 40, 1<<63 + 1<<40, 1<<64 - 1} {
			var b Bucket
			wait := b.Spend(0, n, per, Saved)
			if wait < before || wait > longest || n <= 1 && wait != 0 {
				t.Errorf("%d at %d a second: wait %v; fewer waited %v", n, per, wait, before)
			}
			before = wait
		}
		if per <= 1 && before != longest {
			t.Errorf("the most calls at %d a second wait %v, want %v", per, before, longest)
		}
	}
	var b Bucket
	for i := range 100 {
		if wait := b.Spend(0, 1<<64-1, 1, Saved); wait != longest {
			t.Fatalf("time %d: wait %v, want %v", i, wait, longest)
		}
	}
}
