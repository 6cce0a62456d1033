// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"testing"
	"time"
)

func TestSharedOrNot(t *testing.T) {
	for _, c := range []struct {
		name  string
		signs CongestionSigns
		want  bool
	}{
		{"nobody", CongestionSigns{}, false},
		{"one alone, congested", CongestionSigns{Active: 1, Waiting: 1, Decreased: 1}, false},
		{"one of two: a bottleneck of its own", CongestionSigns{Active: 2, Waiting: 1, Decreased: 1}, false},
		{"both wait, none was cut", CongestionSigns{Active: 2, Waiting: 2}, false},
		{"both wait, one was cut", CongestionSigns{Active: 2, Waiting: 2, Decreased: 1}, true},
		{"half of eight", CongestionSigns{Active: 8, Waiting: 4, Decreased: 4}, false},
		{"six of eight", CongestionSigns{Active: 8, Waiting: 6, Decreased: 1}, true},
	} {
		if got := c.signs.shared(); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

func TestSharedLinkSteps(t *testing.T) {
	const ms = uint64(time.Millisecond)
	now := 1000 * ms
	u := SharedLink{}
	congested := CongestionSigns{UsedBps: 320e6, Active: 3, Waiting: 3, Decreased: 2}
	step := func(after uint64, s CongestionSigns, limit, want uint64) {
		t.Helper()
		now += after * ms
		u.Step(limit, s, now)
		if u.CapacityBps != want {
			t.Fatalf("at %d ms: %d, want %d", now/ms, u.CapacityBps, want)
		}
	}
	step(0, CongestionSigns{}, 1e9, 1e9) // what there is
	u.ChangedNs = now
	step(10, congested, 1e9, 1e9)   // what the last change did is not seen yet
	step(40, congested, 1e9, 310e6) // a 32nd below what was sent
	step(10, congested, 1e9, 310e6) // not twice for one queue
	step(40, congested, 1e9, 310e6) // more is sent than it is taken to carry: it is no less for that
	if !u.Estimated(1e9) {
		t.Error("310 Mbit/s are not what was set")
	}
	step(99, CongestionSigns{}, 1e9, 310e6)
	step(1, CongestionSigns{}, 1e9, 310e6+310e6>>6)
	step(10, CongestionSigns{}, 200e6, 200e6) // a person says that it is less
	if u.Estimated(200e6) {
		t.Error("200 Mbit/s are all there is")
	}
	step(10, CongestionSigns{}, 800e6, 800e6) // or more: nothing was estimated
}

// Quiet for long enough, the estimate is back at the limit, and never above.
func TestSharedLinkRecovers(t *testing.T) {
	u := SharedLink{CapacityBps: 1e6, ChangedNs: 1}
	now := uint64(1)
	for u.CapacityBps < 1e9 {
		now += uint64(100 * time.Millisecond)
		u.Step(1e9, CongestionSigns{}, now)
		if u.CapacityBps > 1e9 {
			t.Fatalf("%d", u.CapacityBps)
		}
	}
	if took := time.Duration(now); took > 15*time.Second {
		t.Errorf("from a thousandth in %v", took)
	}
}
