// SPDX-License-Identifier: Apache-2.0

package fourcase

import "testing"

// TestOscillationOnce: traffic of others that starts and stops once changes the estimate
// little, though the reverse path is congested.
func TestOscillationOnce(t *testing.T) {
	p := DefaultParams(gbit)
	r := Regs{RateBps: gbit}
	run(&r, &p, queued(0, 4*testD), queued(0, 4*testD), queued(100*testD, 4*testD), queued(0, 4*testD))
	if r.OscillationNs > uint32(testD/4) {
		t.Errorf("the estimate is %d ns after one oscillation of %d ns", r.OscillationNs, 100*testD)
	}
}

// TestOscillation compares single steps with values that were computed by hand.
func TestOscillation(t *testing.T) {
	const d, elapsed = 1000, 8192
	for _, c := range []struct {
		name        string
		oscillation uint32
		trend, dTx  int64
		cutQ10      uint32
		targetMaxNs uint64
		want        uint32
	}{
		{"growth and fall: an eighth of the smaller", 0, 800, -900, 0, 1e6, 100},
		{"the fall is the smaller", 0, 900, -800, 0, 1e6, 100},
		{"growth alone: decay by a 64th", 640, 800, 900, 0, 1e6, 630},
		{"fall alone", 640, -800, -900, 0, 1e6, 630},
		{"no change", 640, 0, 0, 0, 1e6, 630},
		{"a decrease by 1/16 drains 5/4 of 512 ns", 0, 9000, -640 - 80, 64, 1e6, 10},
		{"the decrease explains all of the fall", 0, 9000, -640, 64, 1e6, 0},
		{"one wide oscillation counts D", 0, 9000, -9000, 0, 1e6, 125},
		{"the next ones count four times the estimate more", 400, 9000, -9000, 0, 1e6, 400 + 2200/8},
		{"half of the largest target at most", 0, 900, -900, 0, 800, 50},
		{"a smaller one than the estimate", 640, 320, -320, 0, 1e6, 635},
	} {
		p := Params{TargetMaxNs: c.targetMaxNs}
		r := Regs{OscillationNs: c.oscillation, TrendTxNs: c.dTx, DecreaseQ10: c.cutQ10}
		if r.updateOscillation(&p, c.trend, d, elapsed); r.OscillationNs != c.want {
			t.Errorf("%s: %d, want %d", c.name, r.OscillationNs, c.want)
		}
	}
}
