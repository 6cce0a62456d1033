// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"net/netip"
	"testing"
	"time"
)

// Admission is limited per network, and in all.
func TestAdmission(t *testing.T) {
	const period = 10 * time.Minute
	a := NewAdmission(period)
	now := 1000 * second
	admitted := func(nets, each int) (got int) {
		for i := range nets {
			for j := range each {
				if a.Admit(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), byte(j)}), now) {
					got++
				}
			}
		}
		return got
	}
	if got := admitted(1, 200); got != maxPerNet {
		t.Errorf("%d of one /24, want %d", got, maxPerNet)
	}
	if !a.Admit(netip.MustParseAddr("fd00::1"), now) {
		t.Error("one network keeps out the others")
	}
	admitted(400, maxPerNet)
	if a.total != maxInAll {
		t.Errorf("%d in all, want %d", a.total, maxInAll)
	}
	now += uint64(period) + 1
	if got := admitted(1, 200); got != maxPerNet || len(a.nets) != 1 {
		t.Errorf("%d when the others' entries are gone, want %d", got, maxPerNet)
	}
}
