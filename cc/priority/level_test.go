// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"math/rand/v2"
	"testing"
)

func TestLevel(t *testing.T) {
	for _, c := range []struct {
		name     string
		capacity uint64
		wants    []uint64
		want     uint64
	}{
		{"nobody", 100, nil, All},
		{"one that takes all", 100, []uint64{All}, 100},
		{"all take all", 100, []uint64{All, All, All, All}, 25},
		{"enough for everybody", 100, []uint64{60, 40}, All},
		{"one unit short", 100, []uint64{60, 41}, 59},
		{"two want little", 100, []uint64{All, 10, All, 20}, 35},
		{"one between", 100, []uint64{40, 10, All}, 50},
		{"nothing to share", 0, []uint64{1, 0}, 0},
	} {
		if got := Level(c.capacity, c.wants); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// All that there is gets used if it is wanted, and nobody can have more without somebody
// with less losing.
func TestPropertyLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		wants := make([]uint64, r.IntN(20))
		capacity, total := r.Uint64N(1e12), uint64(0)
		for i := range wants {
			wants[i] = r.Uint64N(1e11) >> r.IntN(37)
			total += wants[i]
		}
		level, used := Level(capacity, wants), uint64(0)
		for _, w := range wants {
			used += min(w, level)
		}
		if most := min(capacity, total); used > most || most-used > uint64(len(wants)) {
			t.Fatalf("capacity %d, wants %d: at level %d %d are used", capacity, wants, level, used)
		}
	}
}
