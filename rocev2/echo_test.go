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
func TestBuildEchoGolden(t *testing.T) {
	const (
		zeros  = "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000"
		bth    = "c600ffff 00fffffe 00000000"
		option = "2d5d 7f26 5352 0002" + zeros
	)
	for _, c := range []struct {
		src, dst netip.Addr
		want     []byte
	}{
		{src4, dst4, testkit.Unhex(t, "45000074 0001 4000 4011 4e3c c0000201 c6336407"+"ff04 12b7 0038 0000"+bth+zeros+"8b4cc077"+option)},
		{src6, dst6, append(append(testkit.Unhex(t, "60000000 0060 11 40"), append(src6.AsSlice(), dst6.AsSlice()...)...),
			testkit.Unhex(t, "ff04 12b7 0038 0000"+bth+zeros+"bcc6850a"+option)...)},
	} {
		buf := make([]byte, MaxHelloLen)
		n, err := BuildEcho(buf, c.src, c.dst)
		if err != nil || n != len(c.want) {
			t.Fatalf("%d bytes, %v; want %d", n, err, len(c.want))
		}
		if !bytes.Equal(buf[:n], c.want) {
			t.Errorf("ECHO\n%x, want\n%x", buf[:n], c.want)
		}
		p, err := ParseIP(buf[:n])
		if err != nil || p.VerifyICRC() != nil || p.Opcode() != OpEcho || len(p.Payload()) != 0 {
			t.Errorf("%v: %v %v, payload of %d bytes", p.Opcode(), err, p.VerifyICRC(), len(p.Payload()))
		}
	}
}

func TestBuildEchoErrors(t *testing.T) {
	buf := make([]byte, MaxHelloLen)
	if _, err := BuildEcho(buf, src4, dst6); !errors.Is(err, ErrFamily) {
		t.Errorf("IPv4 to IPv6: %v", err)
	}
	if _, err := BuildEcho(buf[:115:115], src4, dst4); !errors.Is(err, ErrTooBig) {
		t.Errorf("115 bytes: %v", err)
	}
}
