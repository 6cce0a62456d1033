// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"testing"
	"time"
)

// Progress is told in step with the start of the run, and once after a stall.
func TestFollowing(t *testing.T) {
	due := time.Unix(100, 0)
	for late, want := range map[time.Duration]time.Duration{
		time.Millisecond:        time.Second,
		999 * time.Millisecond:  time.Second,
		time.Second:             2 * time.Second,
		7300 * time.Millisecond: 8 * time.Second,
	} {
		if got := following(due, due.Add(late), time.Second).Sub(due); got != want {
			t.Errorf("%v late: the next one after %v, want %v", late, got, want)
		}
	}
	if got := following(due, due.Add(time.Second), 0); got != due.Add(time.Second) {
		t.Errorf("without an interval: %v", got)
	}
}
