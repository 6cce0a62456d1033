// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"bytes"
	"net/netip"
	"testing"
)

// A cut view and its copy have the same payload, headers and ICRC. Cutting more than there is
// leaves nothing.
func TestCutPayloadAndCopy(t *testing.T) {
	payload := []byte("0123456789abcdefg")
	d := Datagram{
		Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), Opcode: RCWriteOnly, RKey: 9,
		Payload: payload, Stamp: &Stamp{Token: 5},
	}
	b, err := d.AppendTo(make([]byte, 14)) // a place for Ethernet
	if err != nil {
		t.Fatal(err)
	}
	copy(b[12:], []byte{0x08, 0x00})
	for _, cut := range []struct{ front, back int }{{0, 0}, {3, 4}, {17, 0}, {0, 17}, {18, 1}, {9, 100}} {
		p, err := ParseFrame(b)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(p.Body(), b[14+28:14+28+12+16+17]) || !bytes.Equal(p.Pad(), []byte{0, 0, 0}) {
			t.Fatalf("body %x, pad %x", p.Body(), p.Pad())
		}
		p.CutPayload(cut.front, cut.back)
		front := min(cut.front, len(payload))
		want := payload[front:max(front, len(payload)-cut.back)]
		c := p.Copy([]byte("before"))
		for _, v := range []*Packet{&p, &c} {
			stamp, err := v.Stamp()
			if !bytes.Equal(v.Payload(), want) || v.PayloadLen() != len(want) || v.VerifyICRC() != nil ||
				v.RETH().RKey() != 9 || v.Dst() != d.Dst || err != nil || stamp.Token != 5 {
				t.Errorf("cut %+v: payload %q, want %q, %+v", cut, v.Payload(), want, v)
			}
		}
	}
}

// Sealed allows payload with every opcode, and nothing else does.
func TestSealedPayload(t *testing.T) {
	d := Datagram{
		Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), Opcode: RCAck,
		Payload: []byte("28 bytes"),
	}
	if _, err := d.AppendTo(nil); err != ErrPayload {
		t.Errorf("payload on an ACK: %v", err)
	}
	d.Sealed = true
	b, err := d.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := ParseIP(b); err != nil || string(p.Payload()) != "28 bytes" || p.VerifyICRC() != nil {
		t.Errorf("%v: %q", err, p.Payload())
	}
}
