// SPDX-License-Identifier: Apache-2.0

package xsk

import "testing"

// The kernel has all frames but the reserve while the owner keeps up, all frames after the owner
// has fallen behind, and not the reserve again after enough frames without that.
func TestReserve(t *testing.T) {
	l := layout{frameSize: 512, rxFrames: 32, rxReserve: 16, slots: 1, slotFrames: 1}
	s := fakeSocket(l, 1<<32-7)
	k := newFakeKernel(s, l, t.Fatalf)
	b := s.NewBatch(l.rxFrames)
	arrive := func(n int) int {
		for range n {
			k.takeFill(1)
			k.deliver(1, true)
		}
		k.show()
		got := s.Receive(b)
		b.Release()
		return got
	}
	has := func(when string, want int) {
		t.Helper()
		k.takeFill(l.rxFrames)
		if got := len(k.rx); got != want {
			t.Fatalf("%s the kernel has %d frames, want %d", when, got, want)
		}
	}
	has("at first", 16)
	for range 100 {
		if got := arrive(7); got != 7 {
			t.Fatalf("%d packets of 7", got)
		}
	}
	has("while the owner keeps up,", 16)
	if got := arrive(30); got != 16 {
		t.Fatalf("%d packets of 30 while the kernel has 16 frames", got)
	}
	has("after the owner has fallen behind,", 32)
	if got := arrive(30); got != 30 {
		t.Fatalf("%d packets of 30 while the kernel has all frames", got)
	}
	for range calmRounds*l.rxFrames/4 - 1 {
		arrive(4)
	}
	has("before it has kept up for long,", 32)
	for range 10 {
		arrive(4)
	}
	has("when it has kept up,", 16)
}

// Frames that the owner keeps in a batch count: it gets as many packets as without a reserve.
func TestReserveWhileLent(t *testing.T) {
	l := layout{frameSize: 512, rxFrames: 32, rxReserve: 16, slots: 1, slotFrames: 1}
	s := fakeSocket(l, 0)
	k := newFakeKernel(s, l, t.Fatalf)
	got := 0
	for range l.rxFrames {
		k.takeFill(1)
		k.deliver(1, true)
		k.show()
		got += s.Receive(s.NewBatch(1)) // which is not released
	}
	if got != l.rxFrames {
		t.Errorf("%d of %d frames were received while none was released", got, l.rxFrames)
	}
}
