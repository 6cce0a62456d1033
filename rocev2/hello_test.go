// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

var goldenHello = Hello{Node: 4, Caps: 0x0005, LinkMbps: 100_000, Nonce: 0xA1A2A3A4A5A6A7A8, Token: 0xB1B2B3B4B5B6B7B8}

const goldenHelloBody = "0002 0000 00000004 00000005 000186a0 a1a2a3a4a5a6a7a8 b1b2b3b4b5b6b7b8"

func TestHelloBody(t *testing.T) {
	want := testkit.Unhex(t, goldenHelloBody)
	got := bytes.Repeat([]byte{0xFF}, HelloLen)
	goldenHello.Put(got)
	if !bytes.Equal(got, want) {
		t.Fatalf("body %x, want %x", got, want)
	}
	if h, err := ParseHello(got); err != nil || h != goldenHello {
		t.Errorf("parsed %+v, %v", h, err)
	}
	for n := range want {
		if _, err := ParseHello(want[:n]); err != ErrHelloLength {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := ParseHello(append(bytes.Clone(want), 0)); err != ErrHelloLength {
		t.Errorf("33 bytes: %v", err)
	}
	want[1] = 1
	if _, err := ParseHello(want); err != ErrHelloVersion {
		t.Errorf("version 1: %v", err)
	}
}

func TestBuildHello(t *testing.T) {
	for _, c := range []struct {
		src, dst netip.Addr
		n        int
	}{
		{src4, dst4, 116}, {src6, dst6, MaxHelloLen},
		{netip.AddrFrom16(src4.As16()), netip.AddrFrom16(dst4.As16()), 116},
	} {
		buf := make([]byte, MaxHelloLen)
		n, err := BuildHello(buf, c.src, c.dst, goldenHello)
		if err != nil || n != c.n {
			t.Fatalf("%s: %d bytes, %v; want %d", c.src, n, err, c.n)
		}
		p, err := ParseIP(buf[:n])
		if err != nil {
			t.Fatal(err)
		}
		h := p.BTH()
		equal(t, "src", p.Src(), c.src.Unmap())
		equal(t, "dst", p.Dst(), c.dst.Unmap())
		equal(t, "opcode", h.Opcode(), OpHello)
		equal(t, "qpn", h.DestQP(), 0xFFFFFE)
		equal(t, "pkey", h.PKey(), 0xFFFF)
		equal(t, "psn", h.PSN(), 0)
		equal(t, "pad", h.PadCount(), 0)
		equal(t, "udp length", p.UDPLen(), 8+12+32+4)
		equal(t, "udp checksum", p.UDPChecksum(), 0)
		equal(t, "ip length counts the option", p.IPLen(), n)
		equal(t, "source port", p.SrcPort() >= 0xC000, true)
		equal(t, "icrc", p.VerifyICRC(), nil)
		if got, err := p.Hello(); err != nil || got != goldenHello {
			t.Errorf("hello %+v, %v", got, err)
		}
		if s, err := p.Stamp(); err != nil || s != (Stamp{}) {
			t.Errorf("stamp %+v, %v; want an empty one", s, err)
		}
		if !p.IsIPv6() {
			ip := p.IPHeader()
			equal(t, "DF", ip[6], 0x40)
			equal(t, "TTL", ip[8], 64)
			equal(t, "id is not zero", binary.BigEndian.Uint16(ip[4:]) != 0, true)
		}
	}
}

// What BPF must produce in answer, byte for byte.
func TestBuildHelloAckGolden(t *testing.T) {
	buf := make([]byte, MaxHelloLen)
	n, err := BuildHelloAck(buf, src4, dst4, goldenHello, Stamp{Flags: StampEcho, EchoT1: 5, EchoT2: 6})
	if err != nil {
		t.Fatal(err)
	}
	want := testkit.Unhex(t, "45000074 0000 4000 4011 0000 c0000201 c6336407"+ // total length 116
		"c000 12b7 0038 0000"+ // UDP length 56
		"c100ffff 00fffffe 00000000"+goldenHelloBody)
	binary.BigEndian.PutUint16(want[4:], binary.BigEndian.Uint16(buf[4:])) // id: any but 0
	copy(want[10:12], []byte{0, 0})
	binary.BigEndian.PutUint16(want[10:], ^uint16(onesSum(0, want[:20])))
	binary.BigEndian.PutUint16(want[20:], binary.BigEndian.Uint16(buf[20:])) // any source port
	if !bytes.Equal(buf[:len(want)], want) {
		t.Errorf("HELLO_ACK\n%x, want\n%x", buf[:len(want)], want)
	}
	// OCS by hand: 7f26+5352+0202+0005+0006 and the length 0028 are d4ad, complement 2b52.
	if opt := testkit.Unhex(t, "2b52 7f26 5352 0202 0000000000000000 000000000000 000000000005 000000000006 00000000 0000"); !bytes.Equal(buf[n-StampLen:n], opt) {
		t.Errorf("option %x, want %x", buf[n-StampLen:n], opt)
	}
}

func TestBuildHelloErrors(t *testing.T) {
	buf := make([]byte, MaxHelloLen)
	for _, c := range []struct {
		n        int
		src, dst netip.Addr
		want     error
	}{
		{MaxHelloLen, src4, dst6, ErrFamily},
		{MaxHelloLen, netip.Addr{}, dst4, ErrFamily},
		{115, src4, dst4, ErrTooBig},
		{135, src6, dst6, ErrTooBig},
		{0, src4, dst4, ErrTooBig},
	} {
		if n, err := BuildHello(buf[:c.n:c.n], c.src, c.dst, goldenHello); !errors.Is(err, c.want) || n != 0 {
			t.Errorf("%d bytes, %s to %s: %d, %v; want %v", c.n, c.src, c.dst, n, err, c.want)
		}
	}
}

func TestHelloOfAnotherShape(t *testing.T) {
	d := Datagram{Src: src4, Dst: dst4, Opcode: RCSendOnly}
	b, _ := d.AppendTo(nil)
	p, err := ParseIP(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Hello(); err != ErrNotHello {
		t.Errorf("SEND: %v", err)
	}
	d.Payload = make([]byte, HelloLen+4)
	if b, err = d.AppendTo(nil); err != nil {
		t.Fatal(err)
	}
	b[28] = byte(OpHello)
	if p, err = ParseIP(b); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Hello(); err != ErrHelloLength {
		t.Errorf("36 bytes of body: %v", err)
	}
}

func BenchmarkBuildHello(b *testing.B) {
	buf := make([]byte, MaxHelloLen)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := BuildHello(buf, src4, dst4, goldenHello); err != nil {
			b.Fatal(err)
		}
	}
}
