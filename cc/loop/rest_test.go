// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"
	"time"
)

// Ticks are restTick apart once nothing has happened for restAfter, and end with what happens.
func TestRest(t *testing.T) {
	const start = uint64(time.Hour)
	var r Rest
	check := func(after uint64, idle, reported bool, want time.Duration) {
		t.Helper()
		if got := r.Period(idleTick, start+after, idle, reported); got != want {
			t.Errorf("%v after the start: %v, want %v", time.Duration(after), got, want)
		}
	}
	check(0, false, false, idleTick)
	if r.Due(start + restAfter - 1) {
		t.Error("a rest right after traffic")
	}
	check(restAfter-1, true, true, idleTick)
	if !r.Due(start + restAfter) {
		t.Error("no rest")
	}
	check(restAfter, true, false, idleTick) // the table cannot report
	check(restAfter, true, true, restTick)
	if got := r.Period(maxTick, start+restAfter, true, true); got != maxTick {
		t.Errorf("a long period becomes %v", got)
	}
	check(2*restAfter, false, true, idleTick) // traffic of before the table reported
	check(2*restAfter+1, true, true, idleTick)
	check(3*restAfter, true, true, restTick)

	// An event ends the rest: one tick comes soon, and the next ones are as usual.
	if next, rested := r.Wake(start + 4*restAfter); !rested || next != wakeTick {
		t.Errorf("%v, %v", next, rested)
	}
	if _, rested := r.Wake(start + 4*restAfter); rested {
		t.Error("two ends of a rest")
	}
	check(5*restAfter-1, true, true, idleTick)
	check(5*restAfter, true, true, restTick)
}
