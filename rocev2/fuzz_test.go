// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// FuzzHeaders: no header view panics or accepts a short buffer; writing the fields
// that were read changes nothing but reserved bits.
func FuzzHeaders(f *testing.F) {
	for _, h := range headers {
		f.Add(testkit.Unhex(f, h.wire))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, h := range headers {
			v, err := h.parse(b)
			if (err == nil) != (len(v) > 0) || err != nil && err != ErrShort || len(v) > len(b) {
				t.Fatalf("%s: %d bytes, %v", h.name, len(v), err)
			}
		}
		if h, err := ParseBTH(bytes.Clone(b)); err == nil {
			h.SetOpcode(h.Opcode())
			h.SetSolicited(h.Solicited())
			h.SetMigReq(h.MigReq())
			h.SetPadCount(h.PadCount())
			h.SetPKey(h.PKey())
			h.SetFECN(h.FECN())
			h.SetBECN(h.BECN())
			h.SetDestQP(h.DestQP())
			h.SetAckReq(h.AckReq())
			h.SetPSN(h.PSN())
			if !bytes.Equal(h, b[:BTHLen]) {
				t.Errorf("BTH %x rewritten as %x", b[:BTHLen], []byte(h))
			}
		}
		fuzzOOO(t, bytes.Clone(b))
		fuzzRateLimit(t, b)
		if h, err := ParseAETH(b); err == nil {
			_ = h.Syndrome().String()
			h.Syndrome().Credits()
			RNRTime(h.Syndrome().Value())
		}
	})
}

// fuzzOOO writes the fields of the out-of-order headers again: reserved bytes become zero.
func fuzzOOO(t *testing.T, b []byte) {
	var got [OACKLen]byte
	check := func(name string, n int, zero ...int) {
		want := bytes.Clone(b[:n])
		for _, i := range zero {
			want[i] = 0
		}
		if !bytes.Equal(got[:n], want) {
			t.Errorf("%s %x rewritten as %x", name, b[:n], got[:n])
		}
	}
	if h, err := ParseOETH(b); err == nil && h.Version() == OETHVersion {
		OETH(got[:]).Set(h.Fields())
		check("OETH", OETHLen)
	}
	if h, err := ParseOACK(b); err == nil {
		OACK(got[:]).Set(h.Fields())
		check("OACK", OACKLen, 7, 11)
	}
	if h, err := ParseONotify(b); err == nil {
		ONotify(got[:]).Set(h.Fields())
		check("ONotify", ONotifyLen)
	}
	if h, err := ParseONotifyAck(b); err == nil {
		ONotifyAck(got[:]).Set(h.Fields())
		check("ONotifyAck", ONotifyAckLen)
	}
	if h, err := ParseONak(b); err == nil {
		_ = h.Fields().Code.String()
		ONak(got[:]).Set(h.Fields())
		check("ONak", ONakLen, 5, 6, 7)
	}
}

// fuzzRateLimit writes the fields of a RATE_LIMIT again: flags and reserved bytes become zero.
func fuzzRateLimit(t *testing.T, b []byte) {
	h, err := ParseRateLimit(b)
	if err != nil || h.Version() != RateLimitVersion {
		return
	}
	want := bytes.Clone(b[:RateLimitLen])
	clear(want[2:4])
	clear(want[24:])
	got := make(RateLimit, RateLimitLen)
	if got.Set(h.Fields()); !bytes.Equal(got, want) {
		t.Errorf("RATE_LIMIT %x rewritten as %x", b[:RateLimitLen], []byte(got))
	}
}

func packetSeeds(f *testing.F) {
	ack := Datagram{Src: src6, Dst: dst6, Opcode: RCAck, Syndrome: 0x60, Stamp: &goldenStamp}
	ud := Datagram{Src: src4, Dst: dst4, Opcode: UDSendOnlyImm, Payload: []byte("x")}
	hello := Datagram{Src: src4, Dst: dst4, Opcode: OpHello, Hello: goldenHello, Stamp: &Stamp{}}
	grant := Datagram{Src: src6, Dst: dst6, Opcode: OpCreditGrant, DestQP: ControlQPN, LifeNs: 5, Stamp: &Stamp{}}
	limit := Datagram{Src: src4, Dst: dst4, Opcode: OpRateLimit, DestQP: ControlQPN, RateLimit: RateLimitFields{Epoch: 7, RateBps: 8e6, LifeNs: 9}, Stamp: &Stamp{}}
	owrite := Datagram{Src: src4, Dst: dst4, Opcode: OpOWrite, OOO: &goldenOOO, Payload: []byte("abc"), Stamp: &Stamp{}}
	oack := Datagram{Src: src6, Dst: dst6, Opcode: OpOAck, OOO: &goldenOOO}
	for _, d := range []Datagram{ack, ud, hello, grant, limit, owrite, oack} {
		b, err := d.AppendTo(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(frame(b, 1, 2))
	}
}

// FuzzPacket: whatever ParseFrame and ParseIP accept can be read without a panic,
// and the parts add up to the buffer.
func FuzzPacket(f *testing.F) {
	packetSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, parse := range []func([]byte) (Packet, error){ParseFrame, ParseIP} {
			p, err := parse(b)
			if err != nil && err != ErrTruncated {
				continue
			}
			touch(&p)
			if err == ErrTruncated {
				continue
			}
			pad := p.BTH().PadCount()
			n := len(p.LinkHeader()) + len(p.IPHeader()) + 8 + BTHLen + int(p.Opcode().Info().ExtLen) +
				len(p.Payload()) + pad + ICRCLen + len(p.Surplus())
			if n != len(p.LinkHeader())+p.IPLen() || n > len(b) || p.PayloadLen() != len(p.Payload()) {
				t.Fatalf("parts add up to %d of %d bytes", n, len(b))
			}
			c := bytes.Clone(b)
			q, _ := parse(c)
			if err := q.PutICRC(); err != nil || q.VerifyICRC() != nil {
				t.Fatalf("PutICRC %v, VerifyICRC %v", err, q.VerifyICRC())
			}
		}
	})
}

// FuzzStamp: a surplus area decodes to a stamp or to an error, and what decodes is
// encoded again to the same bytes, save an unused OCS and the zero field.
func FuzzStamp(f *testing.F) {
	b := make([]byte, StampLen)
	goldenStamp.Put(b)
	f.Add(b, uint16(0))
	f.Add(b[:39], uint16(1))
	f.Fuzz(func(t *testing.T, area []byte, udpChecksum uint16) {
		s, err := DecodeStamp(area, udpChecksum)
		if err != nil {
			return
		}
		out := make([]byte, StampLen)
		s.Put(out)
		if !bytes.Equal(out[2:38], area[2:38]) {
			t.Errorf("%x encoded again as %x", area, out)
		}
		if got, err := DecodeStamp(out, 1); err != nil || got != s {
			t.Errorf("%+v decoded again as %+v, %v", s, got, err)
		}
	})
}

// FuzzStrip: stripping and stamping again gives the datagram that there was, as far
// as the headers allow.
func FuzzStrip(f *testing.F) {
	packetSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		orig := bytes.Clone(b)
		short, s, err := StripStamp(b)
		if err != nil && err != ErrStampVersion {
			if !bytes.Equal(b, orig) {
				t.Fatal("changed in spite of an error")
			}
			return
		}
		p, err2 := ParseIP(short)
		if err2 != nil || len(p.Surplus()) != 0 || len(short) > len(b)-StampLen {
			t.Fatalf("stripped: %v", err2)
		}
		if err != nil {
			return
		}
		long, err := AppendStamp(short, &s)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := ParseIP(long); err != nil || q.IPLen() != p.IPLen()+StampLen {
			t.Fatalf("stamped again: %v", err)
		}
	})
}

// FuzzHello: bodies decode or are refused; a built HELLO carries what was asked.
func FuzzHello(f *testing.F) {
	b := make([]byte, HelloLen)
	goldenHello.Put(b)
	f.Add(b)
	f.Fuzz(func(t *testing.T, body []byte) {
		h, err := ParseHello(body)
		if err != nil {
			return
		}
		for _, a := range [][2]netip.Addr{{src4, dst4}, {src6, dst6}} {
			buf := make([]byte, MaxHelloLen)
			n, err := BuildHello(buf, a[0], a[1], h)
			if err != nil {
				t.Fatal(err)
			}
			p, err := ParseIP(buf[:n])
			if err != nil || p.VerifyICRC() != nil {
				t.Fatal(err, p.VerifyICRC())
			}
			if got, err := p.Hello(); err != nil || got != h {
				t.Fatalf("%+v, %v", got, err)
			}
		}
	})
}
