// SPDX-License-Identifier: Apache-2.0

package published

import (
	"math"
	"testing"
)

func dctcpNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Fatalf("%s: got %.9g, want %.9g", what, got, want)
	}
}

// One packet of 1250 bytes per 10 us is 1 Gb/s.
func TestDCTCPSequence(t *testing.T) {
	p := DCTCPDefault(100e9, 10_000, 1250)
	dctcpNear(t, "additive step", p.AIBps, 1e9)
	f := NewDCTCPFlow(&p)
	f.Ack(1, 1, 100)
	dctcpNear(t, "first mark, alpha 1: half", f.Rate(), 50e9)
	f.Ack(1, 2, 101)
	f.Ack(0, 99, 149)
	dctcpNear(t, "one cut per window", f.Rate(), 50e9)
	// The round of packets 1..100 saw two marks (the first before it began
	// counts, as in the artefact): alpha = 15/16 + 2/100/16.
	f.Ack(0, 101, 150)
	alpha := 15.0/16 + 2.0/100/16
	dctcpNear(t, "alpha", f.Alpha(), alpha)
	dctcpNear(t, "new round without marks: additive", f.Rate(), 51e9)
	f.Ack(1, 110, 160)
	dctcpNear(t, "cut by alpha/2", f.Rate(), 51e9*(1-alpha/2))
	f.Ack(0, 151, 200)
	dctcpNear(t, "a round that ends inside the cut does not raise", f.Rate(), 51e9*(1-alpha/2))
}

func TestDCTCPRateStaysInBounds(t *testing.T) {
	p := DCTCPDefault(100e9, 10_000, 1250)
	f := NewDCTCPFlow(&p)
	for seq := uint64(1); seq < 5000; seq += 10 {
		f.Ack(10, seq, seq+5)
	}
	dctcpNear(t, "always marked: the least rate", f.Rate(), 1e9)
	for seq := uint64(5000); seq < 9000; seq += 10 {
		f.Ack(0, seq, seq+5)
	}
	dctcpNear(t, "never marked: the line", f.Rate(), 100e9)
}
