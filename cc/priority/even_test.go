// SPDX-License-Identifier: Apache-2.0

package priority

import "testing"

// A share changes only if it is off by more than 1/32.
func TestEvenIsStable(t *testing.T) {
	var e Even
	const link, most = 1000, 5000
	for _, c := range []struct {
		name    string
		demands []uint64
		want    uint64
	}{
		{"one alone has no bound", []uint64{All}, most},
		{"two", []uint64{All, All}, 500},
		{"a little more for the others", []uint64{All, All, 20}, 500},
		{"enough to change it", []uint64{All, All, 100}, 450},
		{"enough for all", []uint64{300, 300}, most},
	} {
		if e.Update(link, c.demands); e.Share(most) != c.want {
			t.Errorf("%s: share %d, want %d", c.name, e.Share(most), c.want)
		}
	}
	e.Update(link, []uint64{All, All})
	if got := e.Share(400); got != 400 {
		t.Errorf("share %d above the destination's maximum 400", got)
	}
	e.Update(0, []uint64{All, All})
	if got := e.Share(400); got == 0 {
		t.Error("a share of 0 would be no limit")
	}
}

// The rate from before a share comes back with the share, less what congestion took.
func TestShareBound(t *testing.T) {
	const most, m = 1e9, 1_000_000
	var b ShareBound
	step := func(what string, rate, share, want uint64) uint64 {
		t.Helper()
		got := b.Apply(rate, share, most)
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
		return got
	}
	if b.Limit(most) != most {
		t.Error("no share yet")
	}
	rate := step("below the share", 800*m, 1000*m, 800*m)
	rate = step("the share shrinks", rate, 500*m, 500*m)
	rate = step("and grows a little", rate, 600*m, 600*m)
	rate = step("and is gone", rate, most, 800*m)

	rate = step("again", rate, 400*m, 400*m)
	b.Decreased(256)
	step("decreased by a quarter meanwhile", rate*3/4, most, 600*m)
}
