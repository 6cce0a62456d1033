// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The rises that a history keeps are those of all pairs of periods up to a horizon apart, the later of which is one
// of the last riseMemory; and those that follow from a stored history are the same.
func TestRises(t *testing.T) {
	const horizon = 4
	r := rand.New(rand.NewPCG(1, 3))
	h := NewHistory(horizon)
	var needs []float64
	for range 3*riseMemory + 7 {
		needs = append(needs, float64(r.IntN(20))) // some are equal
		h.Observe(needs[len(needs)-1], 0)
		var want []float64
		for at := max(0, len(needs)-riseMemory); at < len(needs); at++ {
			for k := 1; k <= min(horizon, at); k++ {
				want = append(want, needs[at]-needs[at-k])
			}
		}
		slices.Sort(want)
		if !slices.Equal(h.rises.sorted, want) {
			t.Fatalf("after %d periods: %d rises, want %d", len(needs), len(h.rises.sorted), len(want))
		}
	}
}

func TestRiseQuantile(t *testing.T) {
	r := rises{}
	if got := r.quantile(0.5); got != 0 {
		t.Errorf("without rises: %v", got)
	}
	r.sorted = []float64{-4, 0, 2, 10}
	for q, want := range map[float64]float64{0: -4, 0.5: 1, 1: 10, 1.0 / 3: 0, 5.0 / 6: 6} {
		if got := r.quantile(q); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
}

// The weight of the network falls with its loss: a half at guardTolerance times the other loss, and next to nothing
// if it is far off.
func TestGuardShares(t *testing.T) {
	for _, c := range []struct{ network, simple, low, high float64 }{
		{0, 0, 1, 1}, {0, 5, 1, 1}, {5, 0, 0, 0}, {1.3, 1, 0.499, 0.501}, {1, 1, 0.73, 0.75}, {0.1, 1, 0.999, 1}, {10, 1, 0, 0.001},
	} {
		var g guard
		g.reset()
		for i := range g.Losses {
			g.Losses[i].add(1e6, 1)
		}
		g.Losses[2], g.Losses[network] = smooth{c.simple, 1}, smooth{c.network, 1}
		best := g.best()
		if best != 2 {
			t.Errorf("%+v: predictor %d is the best", c, best)
		}
		d := decision{}
		d.Pages[2], d.Pages[network] = 100, 200
		share := g.share(best)
		if !(share >= c.low && share <= c.high) || math.Abs(g.pages(&d)-(100+100*share)) > 1e-9 {
			t.Errorf("%+v: share %v, need %v", c, share, g.pages(&d))
		}
	}
}
