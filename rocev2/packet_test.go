// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// writeOnly is an RC WRITE_ONLY datagram with n bytes of payload.
func writeOnly(t testing.TB, n int) []byte {
	t.Helper()
	d := Datagram{
		Src: src4, Dst: dst4, TOS: 0x03, IPID: 0x1234, SrcPort: 0xC123, Opcode: RCWriteOnly,
		AckReq: true, DestQP: 0x11, PSN: 77, VA: 0x1122334455667788, RKey: 0xABCD, DMALen: uint32(n),
		Payload: bytes.Repeat([]byte{0xA5}, n),
	}
	b, err := d.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// frame puts Ethernet and VLAN tags in front of a datagram, and Ethernet padding
// behind a short one.
func frame(datagram []byte, tags ...uint16) []byte {
	b := make([]byte, 12, 128)
	for i, tci := range tags {
		tpid := uint16(etherVLAN)
		if i == 0 && len(tags) > 1 {
			tpid = etherQinQ
		}
		b = binary.BigEndian.AppendUint16(b, tpid)
		b = binary.BigEndian.AppendUint16(b, tci)
	}
	typ := uint16(etherIPv4)
	if datagram[0]>>4 == 6 {
		typ = etherIPv6
	}
	b = append(binary.BigEndian.AppendUint16(b, typ), datagram...)
	for len(b) < 60 {
		b = append(b, 0xEE)
	}
	return b
}

func TestParseFrame(t *testing.T) {
	datagram := writeOnly(t, 5)
	for _, tags := range [][]uint16{nil, {0x2064}, {0x0064, 0x00C8}} {
		p, err := ParseFrame(frame(datagram, tags...))
		if err != nil {
			t.Fatalf("%d tags: %v", len(tags), err)
		}
		outer, inner, n := p.VLANs()
		equal(t, "tags", n, len(tags))
		if n > 0 {
			equal(t, "outer", outer, tags[0])
		}
		if n > 1 {
			equal(t, "inner", inner, tags[1])
		}
		equal(t, "link header", len(p.LinkHeader()), 14+4*n)
		equal(t, "datagram", string(p.Datagram()), string(datagram))
		equal(t, "src", p.Src(), src4)
		equal(t, "dst", p.Dst(), dst4)
		equal(t, "v6", p.IsIPv6(), false)
		equal(t, "tos", p.TOS(), 3)
		equal(t, "ce", p.CE(), true)
		equal(t, "sport", p.SrcPort(), 0xC123)
		equal(t, "ip length", p.IPLen(), 20+8+12+16+8+4)
		equal(t, "udp length", p.UDPLen(), 8+12+16+8+4)
		equal(t, "opcode", p.Opcode(), RCWriteOnly)
		equal(t, "psn", p.BTH().PSN(), 77)
		equal(t, "va", p.RETH().VA(), 0x1122334455667788)
		equal(t, "payload", string(p.Payload()), "\xA5\xA5\xA5\xA5\xA5")
		equal(t, "pad", p.BTH().PadCount(), 3)
		equal(t, "surplus", len(p.Surplus()), 0)
		if p.AETH() != nil || p.DETH() != nil || p.ImmDt() != nil {
			t.Error("headers that WRITE_ONLY does not have")
		}
		if err := p.VerifyICRC(); err != nil {
			t.Error(err)
		}
	}
}

// An empty SEND makes a frame of 58 bytes, which the sender's Ethernet pads to 60:
// the ICRC must be found by the UDP length, and the padding is no surplus area.
func TestEthernetPaddingIsNotPartOfThePacket(t *testing.T) {
	d := Datagram{Src: src4, Dst: dst4, Opcode: RCSendOnly, DestQP: 5}
	b, err := d.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "frame without padding", 14+len(b), 58)
	f := frame(b)
	equal(t, "frame", len(f), 60)
	p, err := ParseFrame(f)
	if err != nil || p.VerifyICRC() != nil || len(p.Surplus()) != 0 {
		t.Errorf("%v, ICRC %v, %d bytes of surplus", err, p.VerifyICRC(), len(p.Surplus()))
	}
}

func TestIPv6(t *testing.T) {
	d := Datagram{Src: src6, Dst: dst6, TOS: 0xC3, FlowLabel: 0x54321, Opcode: UDSendOnlyImm, QKey: 0x80010000, SrcQP: 1, Imm: 7, Payload: []byte("mad!")}
	b, err := d.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "first word", binary.BigEndian.Uint32(b), 0x6C354321)
	p, err := ParseFrame(frame(b, 5))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "v6", p.IsIPv6(), true)
	equal(t, "src", p.Src(), src6)
	equal(t, "dst", p.Dst(), dst6)
	equal(t, "traffic class", p.TOS(), 0xC3)
	equal(t, "qkey", p.DETH().QKey(), 0x80010000)
	equal(t, "imm", p.ImmDt().Value(), 7)
	equal(t, "payload", string(p.Payload()), "mad!")
	equal(t, "icrc", p.VerifyICRC(), nil)
}

func TestParseErrors(t *testing.T) {
	edit := func(f func(b []byte) []byte) []byte { return f(frame(writeOnly(t, 5))) }
	set := func(off int, v ...byte) []byte {
		return edit(func(b []byte) []byte { copy(b[off:], v); return b })
	}
	const ip, udp = 14, 34
	for _, c := range []struct {
		name string
		in   []byte
		want Error
	}{
		{"ARP", set(12, 0x08, 0x06), ErrNotIP},
		{"three tags", frame(writeOnly(t, 5), 1, 2, 3), ErrNotIP},
		{"ethertype IPv6 on IPv4", set(12, 0x86, 0xDD), ErrNotIP},
		{"version 5", set(ip, 0x55), ErrNotIP},
		{"TCP", set(ip+9, 6), ErrNotUDP},
		{"first fragment", set(ip+6, 0x20, 0), ErrFragment},
		{"last fragment", set(ip+6, 0, 1), ErrFragment},
		{"DNS", set(udp+2, 0, 53), ErrNotRoCE},
		{"header of 16 bytes", set(ip, 0x44), ErrIPHeader},
		{"total length below the header", set(ip+2, 0, 19), ErrIPHeader},
		{"total length ends inside UDP", set(ip+2, 0, 27), ErrUDPLength},
		{"UDP length above the IP length", set(udp+4, 0, 49), ErrUDPLength},
		{"UDP length without room for the ICRC", set(udp+4, 0, MinUDPLen-1), ErrUDPLength},
		{"UDP length without room for the RETH", set(udp+4, 0, MinUDPLen), ErrBodyLength},
		{"pad without payload", set(udp+4, 0, MinUDPLen+RETHLen), ErrBodyLength},
		{"empty", nil, ErrShort},
	} {
		if _, err := ParseFrame(c.in); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}

	v6 := Datagram{Src: src6, Dst: dst6, Opcode: RCSendOnly}
	b, err := v6.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	for next, want := range map[byte]Error{6: ErrNotUDP, 0: ErrNotUDP, 44: ErrFragment} {
		b[6] = next
		if _, err := ParseIP(b); err != want {
			t.Errorf("next header %d: %v, want %v", next, err, want)
		}
	}
}

// However short the buffer, a packet is either refused or usable without a panic.
func TestEveryTruncation(t *testing.T) {
	s := Stamp{Flags: StampT1, T1: 1}
	datagram, err := AppendStamp(writeOnly(t, 5), &s)
	if err != nil {
		t.Fatal(err)
	}
	full := frame(datagram, 1, 2)
	const ports = 14 + 8 + 20 + 8
	const headers = ports + 12 + 16
	icrcEnd := len(full) - StampLen
	for n := range full {
		p, err := ParseFrame(full[:n:n])
		switch {
		case n < headers:
			if want := map[bool]Error{true: ErrShort, false: ErrShortBTH}[n < ports]; err != want {
				t.Fatalf("%d bytes: %v, want %v", n, err, want)
			}
			continue
		case err != ErrTruncated:
			t.Fatalf("%d bytes: %v, want ErrTruncated", n, err)
		}
		touch(&p)
		want := error(ErrNoICRC)
		if n >= icrcEnd {
			want = nil
		}
		if err := p.VerifyICRC(); err != want {
			t.Errorf("%d bytes: VerifyICRC %v, want %v", n, err, want)
		}
		equal(t, "payload length", p.PayloadLen(), 5)
		if _, err := p.Stamp(); err == nil {
			t.Errorf("%d bytes: a stamp", n)
		}
	}
}

// touch calls everything that reads.
func touch(p *Packet) (n int) {
	for _, b := range [][]byte{
		p.Frame(), p.LinkHeader(), p.Datagram(), p.IPHeader(), p.BTH(), p.FETH(), p.DETH(), p.RETH(),
		p.AtomicETH(), p.AETH(), p.AtomicAckETH(), p.ImmDt(), p.IETH(), p.SACK(), p.CreditGrant(), p.CreditReturn(),
		p.OETH(), p.OACK(), p.ONotify(), p.ONotifyAck(), p.ONak(), p.Payload(), p.Surplus(),
	} {
		n += len(b)
	}
	p.VLANs()
	p.Src()
	p.Dst()
	p.CE()
	p.SrcPort()
	p.Stamp()
	p.Hello()
	p.ComputeICRC()
	p.VerifyICRC()
	if h := p.SACK(); h != nil {
		h.Has(int(h[0]))
	}
	return n + p.IPLen() + p.UDPLen() + p.PayloadLen() + len(p.Opcode().String()) + int(p.ICRC()&1)
}

func TestErrorText(t *testing.T) {
	seen := map[string]bool{}
	for e := errNone; int(e) < len(errorText); e++ {
		if errorText[e] == "" || seen[e.Error()] {
			t.Errorf("error %d has no text of its own: %q", e, e.Error())
		}
		seen[e.Error()] = true
	}
	equal(t, "foreign", ErrNotRoCE.Foreign() && ErrFragment.Foreign() && ErrShort.Foreign(), true)
	equal(t, "damaged", ErrShortBTH.Foreign() || errNone.Foreign(), false)
}

func BenchmarkParseFrame(b *testing.B) {
	f := frame(writeOnly(b, 1024), 5)
	b.ReportAllocs()
	for b.Loop() {
		p, err := ParseFrame(f)
		if err != nil || p.RETH().RKey() != 0xABCD {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseForeign(b *testing.B) {
	f := frame(writeOnly(b, 1024))
	f[14+20+2] = 0
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseFrame(f); err != ErrNotRoCE {
			b.Fatal(err)
		}
	}
}
