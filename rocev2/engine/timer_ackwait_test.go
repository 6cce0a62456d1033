// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Against a plain list: each queue pair that was pushed is popped once, in order, not before
// its time and not after it, unless it was removed.
func TestAckWaitFIFO(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &ackWaitFIFO{}
		w.head = rapid.Uint32().Draw(t, "places used before")
		w.tail = w.head
		type waiter struct {
			x     *QP
			until qp.Time
		}
		var want []waiter
		now := qp.Time(1)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				for range rapid.SampledFrom([]int{1, 3, ackWaitSlots}).Draw(t, "join") {
					x := &QP{}
					if !w.push(x, now) {
						if w.tail-w.head != ackWaitSlots || x.ackWaiting {
							t.Fatalf("no place behind %d of %d", w.tail-w.head, ackWaitSlots)
						}
						break
					}
					want = append(want, waiter{x, now + ackWaitTime})
				}
			case 1:
				if len(want) > 0 {
					i := rapid.IntRange(0, len(want)-1).Draw(t, "leaves")
					w.remove(want[i].x)
					if want[i].x.ackWaiting {
						t.Fatal("it still stands in line")
					}
					want = append(want[:i:i], want[i+1:]...)
				}
			case 2:
				now += qp.Time(rapid.Int64Range(0, int64(ackWaitTime)).Draw(t, "later"))
				for x := w.pop(now); x != nil; x = w.pop(now) {
					if len(want) == 0 || x != want[0].x || want[0].until > now || x.ackWaiting {
						t.Fatalf("at %d came one that was not due", now)
					}
					want = want[1:]
				}
				if len(want) > 0 && want[0].until <= now {
					t.Fatalf("at %d the one due at %d did not come", now, want[0].until)
				}
			}
			next := qp.Time(0)
			if len(want) > 0 {
				next = want[0].until
			}
			if w.next() != next {
				t.Fatalf("next at %d, want %d", w.next(), next)
			}
		}
	})
}

// What a queue pair waits for is in the wheel by the time that it is due, and never is
// when its answer came soon.
func TestRearm(t *testing.T) {
	e := bench(t)
	x := receiving(t, e, verbs.RC)
	e.now = 1_000_000
	for _, s := range []struct {
		after, deadline qp.Time // time since the last step; deadline of the answer, 0: it came
		watched         bool
		timer           qp.Time // 0: not set
	}{
		{0, 600_000, true, 0},
		{50_000, 0, false, 0},               // answered
		{0, 700_000, true, 0},               //
		{100_000, 500_000, true, 0},         // moves, and is watched for longer than watched
		{0, 50_000, true, 1_200_000},        // is too near for the line
		{0, 0, false, 1_200_000},            // answered: the timer stays
		{10_000, 600_000, false, 1_200_000}, // which is early enough
	} {
		e.now += s.after
		at := qp.Time(0)
		if s.deadline != 0 {
			at = e.now + s.deadline
		}
		e.timers.rearmAt(x, at, e.now)
		if x.ackWaiting != s.watched || qp.Time(x.timer.At()) != s.timer {
			t.Fatalf("after %+v: watched %v, timer %d", s, x.ackWaiting, x.timer.At())
		}
	}
}
