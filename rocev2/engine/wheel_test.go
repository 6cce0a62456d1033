// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestFiresInTime(t *testing.T) {
	for _, at := range []int64{1, tick, tick + 1, 63 * tick, 64 * tick, 65 * tick, 4096*tick - 1, 4096 * tick, 1e9, 1e13, 1e17} {
		var w wheel[int64]
		tm := timer[int64]{Owner: at}
		w.Set(&tm, at)
		fired := int64(0)
		for now := w.Next(); now != 0; now = w.Next() {
			if now > at+tick {
				t.Fatalf("%d: told to look at %d", at, now)
			}
			w.Advance(now, func(int64) { fired = now })
		}
		if fired < at || fired > at+tick {
			t.Errorf("%d fired at %d", at, fired)
		}
		if tm.At() != 0 {
			t.Errorf("%d: still set", at)
		}
	}
}

// One jump over everything fires everything once.
func TestJump(t *testing.T) {
	var w wheel[int]
	timers := make([]timer[int], 1000)
	for i := range timers {
		timers[i].Owner = i
		w.Set(&timers[i], rand.Int64N(1e15)+1)
	}
	fired := map[int]int{}
	w.Advance(math.MaxInt64, func(i int) { fired[i]++ })
	if len(fired) != len(timers) || w.Next() != 0 {
		t.Errorf("%d fired, next %d", len(fired), w.Next())
	}
}

// A timer that sets itself again from its callback comes later, never in the same
// Advance of the same moment, and one that another callback stopped never comes.
func TestSetAndStopWhileFiring(t *testing.T) {
	var w wheel[*int]
	var a, b timer[*int]
	var na, nb int
	a.Owner, b.Owner = &na, &nb
	w.Set(&b, 5*tick)
	w.Set(&a, 5*tick)
	other := map[*int]*timer[*int]{&na: &b, &nb: &a}
	self := map[*int]*timer[*int]{&na: &a, &nb: &b}
	w.Advance(5*tick, func(n *int) {
		*n++
		w.Stop(other[n])
		w.Set(self[n], 1)
	})
	if na+nb != 1 {
		t.Errorf("%d and %d, want one of them once", na, nb)
	}
	w.Advance(6*tick, func(n *int) { *n++ })
	if na+nb != 2 {
		t.Errorf("%d and %d after one tick more", na, nb)
	}
}

// A timer that is further away than the wheel reaches does not hide an earlier one.
func TestFarTimer(t *testing.T) {
	var w wheel[int]
	w.Advance(1<<tickShift, func(int) {})
	var near, far timer[int]
	w.Set(&near, 1<<40)
	w.Set(&far, 1<<46+1<<tickShift)
	if next := w.Next(); next > 1<<40 {
		t.Errorf("next look at %d", next)
	}
}

// Against a plain list of times.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w wheel[int]
		timers := make([]timer[int], 20)
		want := map[int]int64{}
		now := rapid.Int64Range(0, 1<<50).Draw(t, "start")
		w.Advance(now, func(int) {})
		for i := range timers {
			timers[i].Owner = i
		}
		span := func() int64 { return rapid.Int64Range(0, 1<<rapid.IntRange(0, 50).Draw(t, "bits")).Draw(t, "span") }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, len(timers)-1).Draw(t, "timer")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				at := now + span() + 1
				w.Set(&timers[i], at)
				want[i] = at
			case 2:
				w.Stop(&timers[i])
				delete(want, i)
			case 3:
				now += span()
				w.Advance(now, func(i int) {
					if at, ok := want[i]; !ok || at > now {
						t.Fatalf("%d fired at %d, was set for %d (%v)", i, now, at, ok)
					}
					delete(want, i)
				})
				for i, at := range want {
					if at+tick <= now {
						t.Fatalf("%d was set for %d and has not fired at %d", i, at, now)
					}
				}
			}
			next := w.Next()
			for i, at := range want {
				if timers[i].At() != at {
					t.Fatalf("%d says %d, set for %d", i, timers[i].At(), at)
				}
				if next == 0 || next > max(at, now+1)+tick {
					t.Fatalf("next look at %d, but %d is due at %d", next, i, at)
				}
			}
			if len(want) == 0 && next != 0 {
				t.Fatalf("nothing set, next look at %d", next)
			}
		}
	})
}

func TestWheelNoAllocations(t *testing.T) {
	var w wheel[int]
	timers := make([]timer[int], 100)
	now := int64(0)
	if n := testing.AllocsPerRun(100, func() {
		for i := range timers {
			w.Set(&timers[i], now+int64(i*i*1000))
		}
		now += 1e6
		w.Advance(now, func(int) {})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What a queue pair does with its timer for every packet.
func BenchmarkSet(b *testing.B) {
	var w wheel[int]
	timers := make([]timer[int], 10000)
	now := int64(0)
	for i := range timers {
		w.Set(&timers[i], int64(i)*1000+1e9)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now += 300
		w.Set(&timers[i%len(timers)], now+67e6)
		w.Advance(now, func(int) {})
	}
}

// A timer of any level that is due within a tick fires with the end of that tick, not with its start.
func TestFiresAtTheEndOfTheTick(t *testing.T) {
	for level := range 4 {
		var w wheel[int]
		var x timer[int]
		fired := 0
		n := int64(1) << (wheelSlotBits * level)
		w.Set(&x, n*tick+1)
		for _, at := range []int64{n * tick, n*tick + tick - 1} {
			if w.Advance(at, func(int) { fired++ }); fired != 0 {
				t.Errorf("level %d: fired at %d, and it is due at %d", level, at, n*tick+1)
			}
		}
		if w.Advance((n+1)*tick, func(int) { fired++ }); fired != 1 {
			t.Errorf("level %d: fired %d times", level, fired)
		}
	}
}
