// SPDX-License-Identifier: Apache-2.0

package verbs_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The sender's address is read from an IPv6 header, and from an IPv4 header behind 20 bytes of any value.
func TestSenderOf(t *testing.T) {
	ipv4 := "45b9 0064 0000 4000 4011 0000  0a000001 0a000002"
	for _, c := range []struct {
		name, grh string
		want      verbs.AddressVector
	}{
		{
			"IPv6", "6b912345 0040 11 40  fe800000000000000000000000000001  fd000000000000000000000000000002",
			verbs.AddressVector{Src: netip.MustParseAddr("fd00::2"), Dst: netip.MustParseAddr("fe80::1"), TClass: 0xb8},
		},
		{
			"IPv4", "0000000000000000000000000000000000000000" + ipv4,
			verbs.AddressVector{Src: netip.MustParseAddr("10.0.0.2"), Dst: netip.MustParseAddr("10.0.0.1"), TClass: 0xb8},
		},
		{
			"IPv4 behind undefined bytes", "ffffffffffffffffffffffffffffffffffffffff" + ipv4,
			verbs.AddressVector{Src: netip.MustParseAddr("10.0.0.2"), Dst: netip.MustParseAddr("10.0.0.1"), TClass: 0xb8},
		},
	} {
		if got, err := verbs.SenderOf(testkit.Unhex(t, c.grh)); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
	for name, grh := range map[string][]byte{"39 bytes": make([]byte, 39), "zeros": make([]byte, 40), "none": nil} {
		if av, err := verbs.SenderOf(grh); !errors.Is(err, verbs.ErrRange) {
			t.Errorf("%s: %+v, %v", name, av, err)
		}
	}
}

// The GUID is the EUI-64 of the address, as the kernel makes it of 02:00:00:12:34:56.
func TestGUID(t *testing.T) {
	p := verbs.Port{MAC: [6]byte{0x02, 0, 0, 0x12, 0x34, 0x56}}
	if g := p.GUID(); g != [8]byte{0, 0, 0, 0xff, 0xfe, 0x12, 0x34, 0x56} {
		t.Errorf("% x", g)
	}
	if g := new(verbs.Port).GUID(); g != [8]byte{} {
		t.Errorf("without an address: % x", g)
	}
}
