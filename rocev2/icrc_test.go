// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// crcBitwise is the CRC of A17 from its definition, one bit at a time.
func crcBitwise(b []byte) uint32 {
	reg := ^uint32(0)
	for _, c := range b {
		reg ^= uint32(c)
		for range 8 {
			reg = reg>>1 ^ 0xEDB88320&-(reg&1)
		}
	}
	return ^reg
}

// icrcByTheBook masks a whole datagram without a surplus area.
func icrcByTheBook(datagram []byte) []byte {
	b := append(bytes.Repeat([]byte{0xFF}, 8), datagram[:len(datagram)-4]...)
	ip := b[8:]
	udp := ip[ipv6Len:]
	if ip[0]>>4 == 4 {
		ip[1], ip[8], ip[10], ip[11] = 0xFF, 0xFF, 0xFF, 0xFF
		udp = ip[int(ip[0]&15)*4:]
	} else {
		ip[0], ip[1], ip[2], ip[3], ip[7] = 0x6F, 0xFF, 0xFF, 0xFF, 0xFF
	}
	udp[6], udp[7], udp[8+4] = 0xFF, 0xFF, 0xFF
	return binary.LittleEndian.AppendUint32(nil, crcBitwise(b))
}

func TestICRCSeed(t *testing.T) {
	equal(t, "register after eight 0xFF", ^crcBitwise(bytes.Repeat([]byte{0xFF}, 8)), icrcSeed)
}

var (
	src4 = netip.MustParseAddr("192.0.2.1")
	dst4 = netip.MustParseAddr("198.51.100.7")
	src6 = netip.MustParseAddr("2001:db8::1")
	dst6 = netip.MustParseAddr("2001:db8::7")
)

// drawDatagram builds any packet that the table allows.
func drawDatagram(t *rapid.T) []byte {
	var ops []Opcode
	for i := range 256 {
		if Opcode(i).Known() {
			ops = append(ops, Opcode(i))
		}
	}
	d := Datagram{
		Src: src4, Dst: dst4,
		TOS:     rapid.Uint8().Draw(t, "tos"),
		TTL:     rapid.Uint8().Draw(t, "ttl"),
		IPID:    rapid.Uint16().Draw(t, "id"),
		SrcPort: rapid.Uint16().Draw(t, "sport"),
		Opcode:  rapid.SampledFrom(ops).Draw(t, "opcode"),
		BECN:    rapid.Bool().Draw(t, "becn"),
		AckReq:  rapid.Bool().Draw(t, "ackreq"),
		DestQP:  rapid.Uint32Max(PSNMask).Draw(t, "qpn"),
		PSN:     PSN(rapid.Uint32Max(PSNMask).Draw(t, "psn")),
		VA:      rapid.Uint64().Draw(t, "va"),
		RKey:    rapid.Uint32().Draw(t, "rkey"),
		DMALen:  rapid.Uint32().Draw(t, "len"),
		Imm:     rapid.Uint32().Draw(t, "imm"),
	}
	if rapid.Bool().Draw(t, "v6") {
		d.Src, d.Dst, d.FlowLabel = src6, dst6, rapid.Uint32().Draw(t, "flow")
	}
	if d.Opcode.Info().Payload {
		d.Payload = rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload")
	}
	b, err := d.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestICRCAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawDatagram(t)
		if got, want := b[len(b)-4:], icrcByTheBook(b); !bytes.Equal(got, want) {
			t.Fatalf("ICRC %x, by the book %x of %x", got, want, b)
		}
		p, err := ParseIP(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.VerifyICRC(); err != nil {
			t.Fatal(err)
		}
	})
}

// IPv4 options are part of the header and covered as they stand.
func TestICRCWithIPv4Options(t *testing.T) {
	b := writeOnly(t, 5)
	b = append(bytes.Clone(b[:20]), append([]byte{1, 1, 1, 0}, b[20:]...)...)
	b[0] = 0x46
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	p, err := ParseIP(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.VerifyICRC(); err != ErrICRC {
		t.Fatalf("the ICRC of another header: %v", err)
	}
	if err := p.PutICRC(); err != nil {
		t.Fatal(err)
	}
	if want := icrcByTheBook(b); !bytes.Equal(b[len(b)-4:], want) || p.VerifyICRC() != nil || p.VerifyICRCInPlace() != nil {
		t.Errorf("ICRC %x, want %x", b[len(b)-4:], want)
	}
}

// Exactly the bits that the network may change are free; any other flip shows.
func TestICRCCoversAllButTheMaskedBits(t *testing.T) {
	for _, src := range []netip.Addr{src4, src6} {
		d := Datagram{Src: src, Dst: dst4, Opcode: RCSendOnly, DestQP: 5, Payload: []byte("abcdefgh")}
		masked := map[int]byte{1: 0xFF, 8: 0xFF, 10: 0xFF, 11: 0xFF, 26: 0xFF, 27: 0xFF, 32: 0xFF}
		if src == src6 {
			d.Dst = dst6
			masked = map[int]byte{0: 0x0F, 1: 0xFF, 2: 0xFF, 3: 0xFF, 7: 0xFF, 46: 0xFF, 47: 0xFF, 52: 0xFF}
		}
		orig, err := d.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range orig {
			for bit := range 8 {
				b := bytes.Clone(orig)
				b[i] ^= 1 << bit
				p, err := ParseIP(b)
				if err != nil {
					continue // the flip broke a length, version or protocol
				}
				free := masked[i]>>bit&1 == 1
				before := bytes.Clone(b)
				if inPlace := p.VerifyICRCInPlace(); inPlace != p.VerifyICRC() || !bytes.Equal(b, before) {
					t.Errorf("byte %d bit %d: in place %v, else %v; the packet was %x and is %x", i, bit, inPlace, p.VerifyICRC(), before, b)
				}
				if ok := p.VerifyICRC() == nil; ok != free {
					t.Errorf("IPv%c byte %d bit %d: ICRC ok %v, masked %v", "46"[map[bool]int{true: 1}[src == src6]], i, bit, ok, free)
				}
			}
		}
	}
}

func benchmarkICRC(b *testing.B, src, dst netip.Addr, n int) {
	d := Datagram{Src: src, Dst: dst, Opcode: RCWriteMiddle, Payload: make([]byte, n)}
	buf, err := d.AppendTo(nil)
	if err != nil {
		b.Fatal(err)
	}
	p, err := ParseIP(buf)
	if err != nil {
		b.Fatal(err)
	}
	for name, verify := range map[string]func() error{"": p.VerifyICRC, "/inplace": p.VerifyICRCInPlace} {
		b.Run(fmt.Sprintf("%d%s", n, name), func(b *testing.B) {
			b.SetBytes(int64(len(buf)))
			b.ReportAllocs()
			for b.Loop() {
				if verify() != nil {
					b.Fatal("bad")
				}
			}
		})
	}
}

func BenchmarkICRC(b *testing.B) {
	b.Run("v4", func(b *testing.B) {
		for _, n := range []int{0, 1024, 4096} {
			benchmarkICRC(b, src4, dst4, n)
		}
	})
	b.Run("v6", func(b *testing.B) { benchmarkICRC(b, src6, dst6, 1024) })
}
