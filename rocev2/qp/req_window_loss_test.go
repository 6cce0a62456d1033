// SPDX-License-Identifier: Apache-2.0

package qp

import "testing"

// The window halves with a loss, opens by one a round trip, and twice as wide
// after a calm.
func TestWindow(t *testing.T) {
	var w window
	w.start()
	w.acked(1000)
	if w.size != widest || w.ackEvery() != 64 {
		t.Errorf("limited to %d before any loss", w.size)
	}
	w.lost(100, minWindow)
	if w.size != 50 {
		t.Errorf("half of 100 is %d", w.size)
	}
	w.acked(50)
	w.acked(25)
	w.acked(26)
	if w.size != 52 {
		t.Errorf("after two round trips: %d, want 52", w.size)
	}
	w.lost(1, minWindow)
	if w.size != minWindow {
		t.Errorf("least is %d", w.size)
	}
	for range calmPackets {
		w.acked(1)
	}
	calm := w.size
	w.acked(calm)
	if w.size != 2*calm {
		t.Errorf("%d grows to %d after a calm", calm, w.size)
	}
	w.silent(100)
	w.acked(1)
	w.acked(2)
	if w.size != 4 || w.below != 50 {
		t.Errorf("after silence: %d below %d", w.size, w.below)
	}
	w.falseAlarm()
	if w.size != 2*calm {
		t.Errorf("after a false alarm: %d, want %d", w.size, 2*calm)
	}
}
