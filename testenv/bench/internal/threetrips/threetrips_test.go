// SPDX-License-Identifier: Apache-2.0

package threetrips

import (
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
		if us < 2300 || us > 2400 {
			t.Errorf("%v us with two delays of up to 50", us)
		}
	}
	w.Delayed, w.Loss = 0, .9
	for _, us := range w.Times(random(), random(), 10, 1e-6) {
		if n := (us - 2300) / 200; n-float64(int(n+.5)) > 0.01 {
			t.Errorf("%v us: each loss takes one base RTT", us)
		}
	}
}
