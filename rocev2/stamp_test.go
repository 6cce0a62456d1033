// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

var goldenStamp = Stamp{
	Flags: StampT1 | StampEcho | StampCE, Token: 0x5152535455565758, T1: 0x010203040506,
	EchoT1: 0x111213141516, EchoT2: 0x212223242526, Credit: 0x31323334, CreditSeq: 0x4142,
}

func TestStampGolden(t *testing.T) {
	// The OCS by hand: the words of the option add up to
	//
	//	7f26+5352+0b02       0dd7a
	//	5152+5354+5556+5758  15154
	//	0102+0304+0506       0090c
	//	1112+1314+1516       0393c
	//	2122+2324+2526       0696c
	//	3132+3334+4142       0a5a8
	//	length 40            00028
	//
	// which is 38052; folded 8055, complement 7faa.
	want := testkit.Unhex(t, "7faa 7f26 5352 0b02 5152535455565758 010203040506 111213141516 212223242526 31323334 4142")
	got := make([]byte, StampLen)
	goldenStamp.Put(got)
	if !bytes.Equal(got, want) {
		t.Fatalf("option\n%x, want\n%x", got, want)
	}
	s, err := DecodeStamp(got, 0)
	if err != nil || s != goldenStamp {
		t.Errorf("decoded %+v, %v", s, err)
	}
}

// Times wrap: what does not fit 48 bits is not carried.
func TestStampTimesWrap(t *testing.T) {
	b := make([]byte, StampLen)
	s := Stamp{Flags: 15, T1: 1<<48 + 1, EchoT1: 1<<63 + 2, EchoT2: ^uint64(0), Credit: 1, CreditSeq: 1}
	s.Put(b)
	got, err := DecodeStamp(b, 0)
	s.T1, s.EchoT1, s.EchoT2 = 1, 2, StampTimeMask
	if err != nil || got != s {
		t.Errorf("%+v, %v; want %+v", got, err, s)
	}
}

// RFC 9868: an OCS that comes out as zero is sent as 0xFFFF, a zero OCS means
// unused and is allowed only where the UDP checksum is zero too.
func TestOCSZeroCases(t *testing.T) {
	area := make([]byte, StampLen)
	s := goldenStamp
	s.Put(area)
	// Raise a word by the OCS itself, so that everything else sums to 0xFFFF.
	s.CreditSeq += binary.BigEndian.Uint16(area)
	s.Put(area)
	equal(t, "OCS of a sum of 0xFFFF", binary.BigEndian.Uint16(area), 0xFFFF)
	if got, err := DecodeStamp(area, 0x1234); err != nil || got != s {
		t.Errorf("OCS 0xFFFF: %+v, %v", got, err)
	}
	area[0], area[1] = 0, 0
	if got, err := DecodeStamp(area, 0); err != nil || got != s {
		t.Errorf("OCS unused, UDP checksum zero: %+v, %v", got, err)
	}
	if _, err := DecodeStamp(area, 0x1234); err != ErrStampChecksum {
		t.Errorf("OCS zero, UDP checksum not: %v", err)
	}
}

func TestDecodeStampErrors(t *testing.T) {
	good := make([]byte, StampLen)
	goldenStamp.Put(good)
	set := func(off int, v byte) []byte {
		b := bytes.Clone(good)
		b[off] = v
		b[0], b[1] = 0, 0
		binary.BigEndian.PutUint16(b, computeOCS(b))
		return b
	}
	flipped := bytes.Clone(good)
	flipped[20] ^= 1
	for _, c := range []struct {
		name string
		area []byte
		want error
	}{
		{"empty", nil, ErrNoSurplus},
		{"kind", set(2, 8), ErrStampForeign},
		{"length", set(3, 40), ErrStampForeign},
		{"ExID", set(5, 0x53), ErrStampForeign},
		{"longer", append(bytes.Clone(good), 0, 0), ErrStampForeign},
		{"flipped bit", flipped, ErrStampChecksum},
		{"version 1", set(7, 1), ErrStampVersion},
	} {
		if s, err := DecodeStamp(c.area, 0); err != c.want || s != (Stamp{}) {
			t.Errorf("%s: %+v, %v; want %v", c.name, s, err, c.want)
		}
	}
	for n := 1; n < StampLen; n++ {
		if _, err := DecodeStamp(good[:n], 0); err != ErrStampForeign {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// Stamping and stripping leaves not a bit changed, and in between the packet is
// well-formed: IPv4 checksum and ICRC hold, the UDP part is untouched.
func TestStampRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		orig := drawDatagram(t)
		s := Stamp{
			Flags: rapid.Uint8().Draw(t, "flags"), Token: rapid.Uint64().Draw(t, "token"),
			T1:     rapid.Uint64Max(StampTimeMask).Draw(t, "t1"),
			EchoT1: rapid.Uint64Max(StampTimeMask).Draw(t, "e1"), EchoT2: rapid.Uint64Max(StampTimeMask).Draw(t, "e2"),
			Credit: rapid.Uint32().Draw(t, "credit"), CreditSeq: rapid.Uint16().Draw(t, "seq"),
		}
		b, err := AppendStamp(bytes.Clone(orig), &s)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ParseIP(b)
		if err != nil || len(b) != len(orig)+StampLen || p.IPLen() != len(b) {
			t.Fatalf("stamped: %v, %d bytes", err, len(b))
		}
		if got, err := p.Stamp(); err != nil || got != s {
			t.Fatalf("stamp %+v, %v", got, err)
		}
		if err := p.VerifyICRC(); err != nil {
			t.Fatal(err)
		}
		if !p.IsIPv6() && onesSum(0, p.IPHeader()) != 0xFFFF {
			t.Fatalf("IPv4 checksum of %x", p.IPHeader())
		}
		back, got, err := StripStamp(b)
		if err != nil || got != s || !bytes.Equal(back, orig) {
			t.Fatalf("stripped to %x, %+v, %v; want %x", back, got, err, orig)
		}
	})
}

func TestAppendStampRefuses(t *testing.T) {
	s := goldenStamp
	b, err := AppendStamp(writeOnly(t, 8), &s)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := AppendStamp(bytes.Clone(b), &s)
	if err != ErrSurplus || !bytes.Equal(twice, b) {
		t.Errorf("second stamp: %v", err)
	}
	if _, err := AppendStamp([]byte("not an IP datagram at all, is it"), &s); err == nil {
		t.Error("stamped something that is no RoCEv2")
	}
	d := Datagram{Src: src4, Dst: dst4, Opcode: RCSendOnly, Payload: make([]byte, 65535-20-MinUDPLen-36)}
	big, err := d.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := AppendStamp(big, &s); err != ErrTooBig {
		t.Errorf("%d bytes: %v", len(big), err)
	}
}

func TestStripStampVersion(t *testing.T) {
	orig := writeOnly(t, 8)
	s := goldenStamp
	b, err := AppendStamp(bytes.Clone(orig), &s)
	if err != nil {
		t.Fatal(err)
	}
	area := b[len(orig):]
	area[7] = 1
	area[0], area[1] = 0, 0
	binary.BigEndian.PutUint16(area, computeOCS(area))
	got, s, err := StripStamp(b)
	if err != ErrStampVersion || s != (Stamp{}) || !bytes.Equal(got, orig) {
		t.Errorf("%x, %+v, %v", got, s, err)
	}
}

// A damaged IPv4 checksum must not be repaired on the way.
func TestStampKeepsDamage(t *testing.T) {
	b := writeOnly(t, 8)
	b[10] ^= 0x40
	s := goldenStamp
	b, err := AppendStamp(b, &s)
	if err != nil {
		t.Fatal(err)
	}
	if onesSum(0, b[:20]) == 0xFFFF {
		t.Error("the wrong IPv4 checksum became right")
	}
}

func BenchmarkStamp(b *testing.B) {
	buf := append(make([]byte, 0, 2048), writeOnly(b, 1024)...)
	s := goldenStamp
	b.ReportAllocs()
	for b.Loop() {
		out, err := AppendStamp(buf, &s)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err = StripStamp(out); err != nil {
			b.Fatal(err)
		}
	}
}
