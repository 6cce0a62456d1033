// SPDX-License-Identifier: Apache-2.0

package qp

import "testing"

// The window halves with a loss, grows by one packet a round trip, and doubles after a time
// without loss.
func TestWindow(t *testing.T) {
	var w window
	w.start()
	w.acked(1000)
	if w.size != maxWindow || w.ackEvery() != 64 {
		t.Errorf("limited to %d before any loss", w.size)
	}
	w.onLoss(100, minWindowAfterNAK)
	if w.size != 50 {
		t.Errorf("half of 100 is %d", w.size)
	}
	w.acked(50)
	w.acked(25)
	w.acked(26)
	if w.size != 52 {
		t.Errorf("after two round trips: %d, want 52", w.size)
	}
	w.onLoss(1, minWindowAfterNAK)
	if w.size != minWindowAfterNAK {
		t.Errorf("least is %d", w.size)
	}
	for range lossFreePackets {
		w.acked(1)
	}
	calm := w.size
	w.acked(calm)
	if w.size != 2*calm {
		t.Errorf("%d grows to %d after a calm", calm, w.size)
	}
	w.onSilence(100)
	w.acked(1)
	w.acked(2)
	if w.size != 4 || w.ssthresh != 50 {
		t.Errorf("after silence: %d below %d", w.size, w.ssthresh)
	}
	w.undo()
	if w.size != 2*calm {
		t.Errorf("after a false alarm: %d, want %d", w.size, 2*calm)
	}
}
