// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// The whole datagram, byte for byte. The ICRC is what zlib makes of it.
func TestBuildRateLimitGolden(t *testing.T) {
	const (
		zeros  = "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000"
		bth    = "c500ffff 00fffffe 00000000"
		body   = "0001 0000 01020304 0000000002faf080 000000003b9aca00 0000000000000000"
		option = "2d5d 7f26 5352 0002" + zeros
	)
	for _, c := range []struct {
		src, dst netip.Addr
		want     []byte
	}{
		{src4, dst4, testkit.Unhex(t, "45000074 0305 4000 4011 4b38 c0000201 c6336407"+"ff04 12b7 0038 0000"+bth+body+"a8bbdf9c"+option)},
		{src6, dst6, append(append(testkit.Unhex(t, "60000000 0060 11 40"), append(src6.AsSlice(), dst6.AsSlice()...)...),
			testkit.Unhex(t, "ff04 12b7 0038 0000"+bth+body+"5a024816"+option)...)},
	} {
		buf := make([]byte, MaxHelloLen)
		n, err := BuildRateLimit(buf, c.src, c.dst, RateLimitFields{Epoch: 0x01020304, RateBps: 50e6, LifeNs: 1e9})
		if err != nil || n != len(c.want) {
			t.Fatalf("%d bytes, %v; want %d", n, err, len(c.want))
		}
		if !bytes.Equal(buf[:n], c.want) {
			t.Errorf("RATE_LIMIT\n%x, want\n%x", buf[:n], c.want)
		}
		p, err := ParseIP(buf[:n])
		if err != nil || p.VerifyICRC() != nil || p.Opcode() != OpRateLimit || p.RateLimit() == nil {
			t.Errorf("%v: %v %v", p.Opcode(), err, p.VerifyICRC())
		}
		for cut := range n - StampLen { // what a packet lacks is never read
			if p, err := ParseIP(buf[:cut]); err == nil {
				t.Errorf("%d of %d bytes: %v", cut, n, p.RateLimit())
			}
		}
	}
}

func TestBuildRateLimitErrors(t *testing.T) {
	buf := make([]byte, MaxHelloLen)
	if _, err := BuildRateLimit(buf, src4, dst6, RateLimitFields{}); !errors.Is(err, ErrFamily) {
		t.Errorf("IPv4 to IPv6: %v", err)
	}
	if _, err := BuildRateLimit(buf[:115:115], src4, dst4, RateLimitFields{}); !errors.Is(err, ErrTooBig) {
		t.Errorf("115 bytes: %v", err)
	}
}

// A body of another version is not read.
func TestRateLimitOfAnotherVersion(t *testing.T) {
	d := Datagram{Src: src4, Dst: dst4, Opcode: OpRateLimit, DestQP: ControlQPN, Stamp: &Stamp{}}
	b, err := d.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ParseIP(b)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "length, that of a HELLO", len(b), 116)
	equal(t, "read", p.RateLimit() != nil, true)
	b[28+BTHLen+1] = RateLimitVersion + 1
	equal(t, "read", p.RateLimit() != nil, false)
}
