// SPDX-License-Identifier: Apache-2.0

package regs_test

import (
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// The bytes of addresses in registers.
func TestAddresses(t *testing.T) {
	for text, want := range map[string][2]uint64{
		"10.1.2.3":                         {0, 0x0302010affff0000},
		"2001:db8:102:304:506:708:90a:b0c": {0x04030201b80d0120, 0x0c0b0a0908070605},
	} {
		a := netip.MustParseAddr(text)
		high, low := regs.AddrWords(a)
		if [2]uint64{high, low} != want || regs.AddrOf(high, low) != a {
			t.Errorf("%v: %#x %#x, want %#x; back %v", a, high, low, want, regs.AddrOf(high, low))
		}
	}
	mac := [6]byte{1, 2, 3, 4, 5, 6}
	if v := regs.MACWord(mac); v != 0x010203040506 || regs.MACOf(v) != mac {
		t.Errorf("%#x, back %v", v, regs.MACOf(v))
	}
}
