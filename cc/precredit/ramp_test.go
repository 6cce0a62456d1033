// SPDX-License-Identifier: Apache-2.0

package precredit

import "testing"

func TestRamp(t *testing.T) {
	var r Ramp
	if _, on := r.Window(); on {
		t.Error("the zero value limits")
	}
	r.Ack(1000, 0, 10_000, 1) // and takes no harm
	window := func() uint32 {
		w, on := r.Window()
		if !on {
			return 0
		}
		return w
	}
	r.Begin(16_000)
	for range 16 { // a round trip without a queue doubles it
		r.Ack(1000, 5000, 10_000, 1<<20)
	}
	if got := window(); got != 32_000 {
		t.Errorf("window %d, want 32 000", got)
	}
	for range 32 { // one with a queue adds a sixteenth
		r.Ack(1000, 5001, 10_000, 1<<20)
	}
	if got := window(); got != 32_000+32*63 {
		t.Errorf("window %d, want %d", got, 32_000+32*63)
	}
	r.Ack(1000, 0, 10_000, 30_000) // the policy has cut below it
	if got := window(); got != 0 {
		t.Errorf("window %d after the end", got)
	}
	r.Begin(1)
	r.End()
	if got := window(); got != 0 {
		t.Errorf("window %d after End", got)
	}
}
