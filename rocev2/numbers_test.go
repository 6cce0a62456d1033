// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPSN(t *testing.T) {
	equal(t, "wrap up", PSN(0xFFFFFF).Add(1), 0)
	equal(t, "wrap down", PSN(0).Add(-1), 0xFFFFFF)
	equal(t, "ahead over the wrap", PSN(2).Diff(0xFFFFFE), 4)
	equal(t, "behind over the wrap", PSN(0xFFFFFE).Diff(2), -4)
	equal(t, "half the circle", PSN(1<<23).Diff(0), -1<<23)
	equal(t, "before", PSN(0xFFFFFF).Before(0), true)
	equal(t, "after", PSN(0).After(0xFFFFFF), true)
	equal(t, "itself", PSN(5).Before(5) || PSN(5).After(5), false)

	rapid.Check(t, func(t *rapid.T) {
		p := PSN(rapid.Uint32Max(PSNMask).Draw(t, "p"))
		n := rapid.IntRange(-1<<23, 1<<23-1).Draw(t, "n")
		if q := p.Add(n); q > PSNMask || q.Diff(p) != n || q.Add(-n) != p {
			t.Fatalf("%d + %d = %d, %d ahead", p, n, q, q.Diff(p))
		}
	})
}

func TestPMTU(t *testing.T) {
	for m, want := range map[PMTU]int{0: 0, PMTU256: 256, PMTU512: 512, PMTU1024: 1024, PMTU2048: 2048, PMTU4096: 4096, 6: 0, 255: 0} {
		equal(t, "bytes", m.Bytes(), want)
		equal(t, "valid", m.Valid(), want != 0)
	}
	for mtu, want := range map[int]PMTU{
		335: 0, 336: PMTU256, 1103: PMTU512, 1104: PMTU1024, 1500: PMTU1024, 2128: PMTU2048, 4175: PMTU2048, 4176: PMTU4096, 9000: PMTU4096,
	} {
		m, ok := PMTUForMTU(mtu)
		if m != want || ok != (want != 0) {
			t.Errorf("MTU %d: PMTU %d, %v; want %d", mtu, m, ok, want)
		}
	}
	for _, c := range []struct {
		m       PMTU
		n, want uint32
	}{
		{PMTU1024, 0, 1}, {PMTU1024, 1, 1}, {PMTU1024, 1024, 1}, {PMTU1024, 1025, 2},
		{PMTU4096, 1<<32 - 1, 1 << 20}, {PMTU256, 1<<32 - 1, 1 << 24}, {0, 5, 0},
	} {
		equal(t, "packets", c.m.Packets(c.n), c.want)
	}
}

func TestSourcePort(t *testing.T) {
	for fl, want := range map[uint32]uint16{
		0: 0xC000, 1: 0xC001, 0x3FFF: 0xFFFF, 0x4000: 0xC001, 0xFFFFF: 0xFFFF ^ 0x3F, 0xFFFFFFFF: 0xFFFF ^ 0x3F,
	} {
		equal(t, "source port", SourcePort(fl), want)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint32().Draw(t, "a"), rapid.Uint32().Draw(t, "b")
		if FlowLabel(a, b) != FlowLabel(b, a) || FlowLabel(a, b) > 0xFFFFF || SourcePort(FlowLabel(a, b)) < 0xC000 {
			t.Fatal("asymmetric or out of range")
		}
	})
}
