// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

func TestIPData(t *testing.T) {
	for _, c := range []struct {
		d    IPData
		wire string
	}{
		{IPData{v4a, v4b, 0xC627}, "0040c627" + "0000000000000000000000000a010203" + "0000000000000000000000000a010204"},
		{IPData{v6a, v6b, 1}, "00600001" + "fd770000000000000000000000000001" + "fd770000000000000000000000000002"},
	} {
		want := testkit.Unhex(t, c.wire)
		got, err := c.d.Append(nil)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: %x, %v; want %x", c.d, got, err, want)
		}
		d, rest, err := ParseIPData(append(want, 5))
		if err != nil || d != c.d || len(rest) != 1 || rest[0] != 5 {
			t.Errorf("parsed %v, %x, %v; want %v", d, rest, err, c.d)
		}
		for n := range want {
			if _, _, err := ParseIPData(want[:n]); err != ErrLength {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
		for at, mask := range map[int]byte{0: 0x10, 1: 0x10} {
			bad := bytes.Clone(want)
			bad[at] ^= mask
			if _, _, err := ParseIPData(bad); err != ErrIPVersion {
				t.Errorf("byte %d wrong: %v", at, err)
			}
		}
		want[0] |= 1 // a later minor version is read alike
		if d, _, err := ParseIPData(want); err != nil || d != c.d {
			t.Errorf("minor version 1: %v, %v", d, err)
		}
	}
	// A v4-mapped address means IPv4.
	b, err := IPData{netip.AddrFrom16(v4a.As16()), v4b, 0}.Append(nil)
	if err != nil || b[1] != 0x40 {
		t.Errorf("v4-mapped: %x, %v", b, err)
	}
	for _, d := range []IPData{{v4a, v6b, 0}, {v6a, v4b, 0}, {Dst: v4b}, {Src: v6a}, {}} {
		if b, err := d.Append([]byte{1}); err != ErrFamily || len(b) != 1 {
			t.Errorf("%v: %x, %v; want ErrFamily", d, b, err)
		}
	}
}

func TestServiceID(t *testing.T) {
	for _, c := range []struct {
		id    ServiceID
		space PortSpace
		port  uint16
		ok    bool
		text  string
	}{
		{IPServiceID(PortTCP, 7174), PortTCP, 7174, true, "tcp port 7174"},
		{IPServiceID(PortUDP, 0xFFFF), PortUDP, 0xFFFF, true, "udp port 65535"},
		{IPServiceID(PortIB, 1), PortIB, 1, true, "ib port 1"},
		{0x01320009, 0x0132, 9, true, "service ID 0x0000000001320009"},
		{0x0000000101061C06, PortTCP, 7174, false, "service ID 0x0000000101061c06"},
		{0x1000000000000001, 0, 1, false, "service ID 0x1000000000000001"},
		{0, 0, 0, false, "service ID 0x0000000000000000"},
	} {
		space, port, ok := c.id.IP()
		if space != c.space || port != c.port || ok != c.ok || c.id.String() != c.text {
			t.Errorf("%#x: %#x, %d, %v, %q", uint64(c.id), uint16(space), port, ok, c.id)
		}
	}
}
