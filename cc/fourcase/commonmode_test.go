// SPDX-License-Identifier: Apache-2.0

package fourcase

import "testing"

// TestCommonMode: a queueing delay that no decrease drains is ignored if both directions have
// it while it oscillates. If it does not, or if only the forward path has it, it is a queue.
func TestCommonMode(t *testing.T) {
	const high = 2 * testD
	for _, c := range []struct {
		name             string
		oscillation, qRx int64
		common, held     bool
	}{
		{name: "both directions, oscillating", oscillation: testD, qRx: high, common: true, held: true},
		{name: "both directions, standing still", qRx: high},
		{name: "the forward path only, oscillating", oscillation: testD},
	} {
		p := DefaultParams(gbit)
		r := Regs{RateBps: gbit}
		run(&r, &p, queued(0, 0))
		for range 200 {
			run(&r, &p, queued(high-c.oscillation/2, c.qRx), queued(high+c.oscillation/2, c.qRx))
		}
		if common := int64(r.CommonModeNs) > high*3/4; common != c.common {
			t.Errorf("%s: %d ns of %d are taken for common-mode jitter", c.name, r.CommonModeNs, high)
		}
		if held := r.RateBps > gbit/2; held != c.held {
			t.Errorf("%s: rate %d", c.name, r.RateBps)
		}
	}
}

// TestCommonModeDecays: once the delays are small and steady again, so is the
// ignored delay.
func TestCommonModeDecays(t *testing.T) {
	p := DefaultParams(gbit)
	r := Regs{RateBps: gbit}
	run(&r, &p, queued(0, 0))
	for range 100 {
		run(&r, &p, queued(testD, 2*testD), queued(3*testD, 2*testD))
	}
	if r.CommonModeNs == 0 || r.OscillationNs == 0 {
		t.Fatalf("common %d, oscillation %d: no estimate", r.CommonModeNs, r.OscillationNs)
	}
	for range 100 {
		run(&r, &p, queued(0, 0))
	}
	if r.CommonModeNs > uint32(testD/100) {
		t.Errorf("%d ns are still ignored", r.CommonModeNs)
	}
}

// TestOneSwingIsLittle: a burst of others that comes and goes once does not move the
// target by much, though the reverse path is congested.
func TestOneSwingIsLittle(t *testing.T) {
	p := DefaultParams(gbit)
	r := Regs{RateBps: gbit}
	run(&r, &p, queued(0, 4*testD), queued(0, 4*testD), queued(100*testD, 4*testD), queued(0, 4*testD))
	if r.OscillationNs > uint32(testD/4) {
		t.Errorf("one oscillation of %d ns counts %d ns", 100*testD, r.OscillationNs)
	}
}

// TestCommonModeFormula compares single steps with values that were computed by hand.
func TestCommonModeFormula(t *testing.T) {
	const e = 640 // oscillations up to 10 ns are those of any queue
	for _, c := range []struct {
		name                        string
		common, oscillation, spikes uint32
		qRx                         int64
		want                        uint32
	}{
		{"an eighth of the reverse path's delay", 0, 1000, 0, 8000, 1000},
		{"no oscillations: none", 0, 10, 0, 8000, 0},
		{"at most 128 times the oscillations above e/64", 0, 11, 0, 8000, 16},
		{"an empty reverse path: decay by an eighth", 8000, 1000, 0, 0, 7000},
		{"a reverse path below its base delay", 8000, 1000, 0, -50, 7000},
		{"at most three times the largest target", 0, 1000, 0, 1 << 40, 30_000 / 8},
		{"less the delay spikes", 0, 1000, 22_000, 1 << 40, 1000},
		{"delay spikes of more than that", 8000, 1000, 40_000, 1 << 40, 7000},
	} {
		p := Params{TargetMaxNs: 10_000}
		r := Regs{CommonModeNs: c.common, OscillationNs: c.oscillation, SpikeNs: c.spikes, QueueingRxNs: c.qRx}
		if r.adaptCommonMode(&p, e); r.CommonModeNs != c.want {
			t.Errorf("%s: %d, want %d", c.name, r.CommonModeNs, c.want)
		}
	}
	r := Regs{CommonModeNs: 500, OscillationNs: 70}
	if half, above := r.ignoredDelay(1000), r.ignoredDelay(998); half != 0 || above != 570 {
		t.Errorf("%d ns are ignored at a D of 1000, %d at 998; want 0 and 570", half, above)
	}
}
