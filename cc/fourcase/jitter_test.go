// SPDX-License-Identifier: Apache-2.0

package fourcase

import "testing"

// TestCommonJitter: an excess that no cut drains is left alone if both directions have
// it while it swings. If it stands still, or if only the way out has it, it is a queue.
func TestCommonJitter(t *testing.T) {
	const high = 2 * testD
	for _, c := range []struct {
		name         string
		swing, qRx   int64
		common, held bool
	}{
		{name: "both directions, swinging", swing: testD, qRx: high, common: true, held: true},
		{name: "both directions, standing still", qRx: high},
		{name: "the way out only, swinging", swing: testD},
	} {
		p := DefaultParams(gbit)
		r := Regs{RateBps: gbit}
		run(&r, &p, queued(0, 0))
		for range 200 {
			run(&r, &p, queued(high-c.swing/2, c.qRx), queued(high+c.swing/2, c.qRx))
		}
		if common := int64(r.CommonNs) > high*3/4; common != c.common {
			t.Errorf("%s: %d ns of %d are taken for common jitter", c.name, r.CommonNs, high)
		}
		if held := r.RateBps > gbit/2; held != c.held {
			t.Errorf("%s: rate %d", c.name, r.RateBps)
		}
	}
}

// TestCommonJitterIsForgotten: once the delays are small and steady again, so is what is
// left out of account.
func TestCommonJitterIsForgotten(t *testing.T) {
	p := DefaultParams(gbit)
	r := Regs{RateBps: gbit}
	run(&r, &p, queued(0, 0))
	for range 100 {
		run(&r, &p, queued(testD, 2*testD), queued(3*testD, 2*testD))
	}
	if r.CommonNs == 0 || r.SwingNs == 0 {
		t.Fatalf("common %d, swing %d: nothing was learnt", r.CommonNs, r.SwingNs)
	}
	for range 100 {
		run(&r, &p, queued(0, 0))
	}
	if r.CommonNs > uint32(testD/100) {
		t.Errorf("%d ns are still left out of account", r.CommonNs)
	}
}

// TestOneSwingIsLittle: a burst of others that comes and goes once does not move the
// target by much, though the way back is congested.
func TestOneSwingIsLittle(t *testing.T) {
	p := DefaultParams(gbit)
	r := Regs{RateBps: gbit}
	run(&r, &p, queued(0, 4*testD), queued(0, 4*testD), queued(100*testD, 4*testD), queued(0, 4*testD))
	if r.SwingNs > uint32(testD/4) {
		t.Errorf("one swing of %d ns counts %d ns", 100*testD, r.SwingNs)
	}
}
