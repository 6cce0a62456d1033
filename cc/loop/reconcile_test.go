// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"
	"time"
)

// A class is empty between the time that its backlog takes and a packet later. A model that
// is earlier than the first is wrong for certain; one that is later may be right.
func TestApart(t *testing.T) {
	const (
		now = uint64(time.Hour)
		bps = uint64(1e6) // a full frame takes 12.112 ms
		ms  = time.Millisecond
	)
	for _, c := range []struct {
		name  string
		model time.Duration // modelled empty time, from now on
		bytes uint64
		want  time.Duration
	}{
		{"the model is right, the last packet's time is over", 80 * ms, 10_000, 0},
		{"the model is right, the last packet has just left", 92 * ms, 10_000, 0},
		{"the model is right, two have left or come", 104 * ms, 10_000, 0},
		{"too early by less than the reading", 79_600 * time.Microsecond, 10_000, 0},
		{"too early by half a packet", 74 * ms, 10_000, 6 * ms},
		{"too early by more than all that waits", -ms, 10_000, 80 * ms},
		{"too late", 110 * ms, 10_000, -30 * ms},
		{"nothing waits, a packet's time is not over", 12 * ms, 0, 0},
		{"nothing waits", 100 * ms, 0, -100 * ms},
	} {
		if got := apart(now+uint64(c.model), now, c.bytes, bps, 12112*time.Microsecond); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// However the last packet's time runs, a model that is too early is put right to within the
// reading, and one that is right stays.
func TestApartConverges(t *testing.T) {
	const bps, bytes, packet = uint64(1e6), uint64(20_000), 1000
	for _, wrong := range []time.Duration{0, -time.Millisecond, -5 * time.Millisecond, -300 * time.Millisecond} {
		now, truth := uint64(time.Hour), uint64(0)
		off := wrong
		for i := range 100 {
			left := time.Duration(i*37%100) * packet * 8 * time.Microsecond / 100 // of the last packet
			truth = now + bytes*8*uint64(time.Second)/bps + uint64(left)
			off += apart(truth+uint64(off), now, bytes, bps, 12112*time.Microsecond)
			now += uint64(reconcilePeriod)
		}
		if off > 0 || off < -reconcileSlack-packet*8*time.Microsecond/100 {
			t.Errorf("a model that was off by %v is off by %v", wrong, off)
		}
	}
}
