// SPDX-License-Identifier: Apache-2.0

package fourcase

import "testing"

// TestSpikes: a delay that is gone with the next decision, again and again, raises the
// target; once it does not.
func TestSpikes(t *testing.T) {
	p := DefaultParams(gbit)
	r := Regs{RateBps: gbit}
	spike := func() { run(&r, &p, queued(40*testD, 0), queued(0, 0)) }
	run(&r, &p, queued(0, 0))
	spike()
	if r.SpikeNs > uint32(testD) {
		t.Errorf("the estimate is %d ns after one delay spike", r.SpikeNs)
	}
	for range 30 {
		spike()
	}
	if r.SpikeNs < 20*uint32(testD) || r.SpikeNs > 40*uint32(testD) {
		t.Errorf("the estimate is %d ns after delay spikes of %d ns", r.SpikeNs, 40*testD)
	}
	for range 600 {
		run(&r, &p, queued(0, 0))
	}
	if r.SpikeNs > uint32(testD) {
		t.Errorf("the estimate is %d ns long after the last delay spike", r.SpikeNs)
	}
}

// TestSpikesFormula compares single steps with values that were computed by hand.
func TestSpikesFormula(t *testing.T) {
	const d, e = 1000, 250
	for _, c := range []struct {
		name         string
		spikes       uint32
		before, q    int64
		want         uint32
		target, band int64
	}{
		{"no spike: decay by a 64th", 6400, 0, 0, 6300, 7300, 1825},
		{"the first of a series: half of D", 0, 9000, 0, 500, 1500, 375},
		{"a spike little above the estimate: half of the difference", 6400, 6400, 0, 6350, 7350, 1837},
		{"a spike far above the estimate: half of estimate and D", 6400, 99_000, 0, 9950, 10_950, 2737},
		{"not above 4D", 0, 4 * d, 0, 0, d, e},
		{"not gone at the next decision", 0, 9000, e + 1, 0, d, e},
		{"gone but for the deadband", 0, 9000, e, 500, 1500, 375},
		{"the deadband grows by a quarter of the estimate", 6400, 99_000, e + 6300/4, 9950, 10_950, 2737},
		{"the upper bound", jitterMax, 1 << 40, 0, jitterMax, jitterMax + d, jitterMax/4 + e},
	} {
		r := Regs{SpikeNs: c.spikes}
		target, band := r.updateSpikes(c.before, c.q, d, e)
		if r.SpikeNs != c.want || target != c.target || band != c.band {
			t.Errorf("%s: %d, D %d, e %d; want %d, D %d, e %d", c.name, r.SpikeNs, target, band, c.want, c.target, c.band)
		}
	}
}
