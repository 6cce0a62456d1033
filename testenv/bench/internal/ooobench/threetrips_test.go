// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"math"
	"math/rand/v2"
	"testing"
)

func random() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }

// Without other messages, loss and delay, a message takes its packets and three trips.
func TestTimes(t *testing.T) {
	w := Wire{Rate: 8e6, Trip: 100, Packets: 2, PacketBytes: 1000, MessageBytes: 1900} // a packet takes 1 ms
	for _, us := range w.Times(random(), random(), 10, 1e-6) {
		if d := us - 2300; d > 0.01 || d < -0.01 {
			t.Errorf("%v us, want 2300", us)
		}
	}
	burst := w
	burst.Burst = 1500
	for _, us := range burst.Times(random(), random(), 10, 1e-6) {
		if d := us - 800; d > 0.01 || d < -0.01 {
			t.Errorf("%v us after a burst of 1500, want 800", us)
		}
	}
	w.Delayed, w.Late = 1, 50
	for _, us := range w.Times(random(), random(), 10, 1e-6) {
		if us < 2301 || us > 2400 {
			t.Errorf("%v us with two delays of up to 50", us)
		}
	}
	w.Delayed, w.Loss = 0, .5
	losses := 0.0
	for _, us := range w.Times(random(), random(), 10, 1e-6) {
		n := (us - 2300) / 200
		if losses += n; math.Abs(n-math.Round(n)) > 1e-6 || n < -1e-6 {
			t.Errorf("%v us: each loss takes one base RTT", us)
		}
	}
	if losses < 1 {
		t.Error("half of the packets are lost, and it takes no time")
	}
}
