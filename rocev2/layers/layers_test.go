// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/gopacket"
	gplayers "github.com/google/gopacket/layers"

	"github.com/softroce/softroce-xdp/rocev2"
)

var (
	src4 = netip.MustParseAddr("192.0.2.1")
	dst4 = netip.MustParseAddr("198.51.100.7")
	src6 = netip.MustParseAddr("2001:db8::1")
	dst6 = netip.MustParseAddr("2001:db8::7")
)

func frame(t testing.TB, d rocev2.Datagram) []byte {
	t.Helper()
	d.Src, d.Dst = src4, dst4
	b := append(make([]byte, 12), 0x08, 0x00)
	b, err := d.AppendTo(b)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func names(p gopacket.Packet) string {
	var s []string
	for _, l := range p.Layers() {
		s = append(s, l.LayerType().String())
	}
	return strings.Join(s, " ")
}

func TestDecode(t *testing.T) {
	stamp := rocev2.Stamp{Flags: rocev2.StampT1, T1: 123, Credit: 9}
	for _, c := range []struct {
		d    rocev2.Datagram
		want string
	}{
		{rocev2.Datagram{Opcode: rocev2.RCWriteOnlyImm, Payload: []byte("abc"), Stamp: &stamp}, "BTH RETH ImmDt Payload ICRC Stamp"},
		{rocev2.Datagram{Opcode: rocev2.RCReadRequest}, "BTH RETH ICRC"},
		{rocev2.Datagram{Opcode: rocev2.RCAck}, "BTH AETH ICRC"},
		{rocev2.Datagram{Opcode: rocev2.RCAtomicAck}, "BTH AETH AtomicAckETH ICRC"},
		{rocev2.Datagram{Opcode: rocev2.RCCompareSwap}, "BTH AtomicETH ICRC"},
		{rocev2.Datagram{Opcode: rocev2.RCSendLastInv}, "BTH IETH ICRC"},
		{rocev2.Datagram{Opcode: rocev2.RCFlush}, "BTH FETH RETH ICRC"},
		{rocev2.Datagram{Opcode: rocev2.UDSendOnly, Payload: []byte("mad!")}, "BTH DETH Payload ICRC"},
		{rocev2.Datagram{Opcode: rocev2.CNP}, "BTH Payload ICRC"},
		{rocev2.Datagram{Opcode: rocev2.OpSACK}, "BTH AETH SACK ICRC"},
		{rocev2.Datagram{Opcode: rocev2.OpHello, Stamp: &stamp}, "BTH Hello ICRC Stamp"},
		{rocev2.Datagram{Opcode: rocev2.OpEcho, Stamp: &stamp}, "BTH ICRC Stamp"},
		{rocev2.Datagram{Opcode: rocev2.OpRateLimit, Stamp: &stamp}, "BTH RateLimit ICRC Stamp"},
		{rocev2.Datagram{Opcode: rocev2.OpCreditGrant, Stamp: &stamp}, "BTH CreditGrant ICRC Stamp"},
		{rocev2.Datagram{Opcode: rocev2.OpCreditReturn, Stamp: &stamp}, "BTH CreditReturn ICRC Stamp"},
		{rocev2.Datagram{Opcode: rocev2.OpOWrite, Payload: []byte("abc"), Stamp: &stamp}, "BTH OETH Payload ICRC Stamp"},
		{rocev2.Datagram{Opcode: rocev2.OpOReadReq}, "BTH OETH ICRC"},
		{rocev2.Datagram{Opcode: rocev2.OpOReadResp, Payload: []byte("abc")}, "BTH OETH Payload ICRC"},
		{rocev2.Datagram{Opcode: rocev2.OpOAck}, "BTH OACK ICRC"},
		{rocev2.Datagram{Opcode: rocev2.OpONotify}, "BTH ONotify ICRC"},
		{rocev2.Datagram{Opcode: rocev2.OpONotifyAck}, "BTH ONotifyAck ICRC"},
		{rocev2.Datagram{Opcode: rocev2.OpONak}, "BTH ONak ICRC"},
	} {
		for _, opt := range []gopacket.DecodeOptions{gopacket.Default, gopacket.Lazy, gopacket.NoCopy} {
			p := gopacket.NewPacket(frame(t, c.d), gplayers.LayerTypeEthernet, opt)
			if got := names(p); got != "Ethernet IPv4 UDP "+c.want || p.ErrorLayer() != nil || p.Metadata().Truncated {
				t.Errorf("%s: %s (%v), want %s", c.d.Opcode, got, p.ErrorLayer(), c.want)
				continue
			}
			if l := p.Layer(LayerTypeICRC).(*ICRC); l.Err != nil {
				t.Errorf("%s: %v", c.d.Opcode, l.Err)
			}
			if l, ok := p.Layer(LayerTypeStamp).(*Stamp); ok != (c.d.Stamp != nil) || ok && l.Stamp != stamp {
				t.Errorf("%s: stamp %+v", c.d.Opcode, l)
			}
			if !strings.Contains(p.String(), c.d.Opcode.String()) {
				t.Errorf("%s is not in the packet's text:\n%s", c.d.Opcode, p)
			}
		}
	}
}

// Fields come out as they went in, each in its own layer.
func TestFields(t *testing.T) {
	d := rocev2.Datagram{
		DestQP: 0x11, PSN: 77, AckReq: true, QKey: 1, SrcQP: 2, VA: 3, RKey: 4, DMALen: 5, SwapAdd: 6,
		Compare: 7, Syndrome: 0x62, MSN: 9, Original: 10, Imm: 11, SACKHi: 12, SACKLo: 13, FlushPlacement: 2,
		Hello:  rocev2.Hello{Node: 4, Caps: 1, LinkMbps: 100, Nonce: 5},
		Credit: rocev2.CreditFields{Flags: 1, Epoch: 14, Limit: 15, Seq: 16}, LifeNs: 17, Sent: 18, Void: 19, RateLimit: rocev2.RateLimitFields{Epoch: 40, RateBps: 41, LifeNs: 42},
		OOO: &rocev2.OOOFields{
			OETH:      rocev2.OETHFields{Flags: 5, Index: 20, Message: 21, VA: 22, RKey: 23, Length: 24},
			OACK:      rocev2.OACKFields{Message: 25, Cumulative: 26, Base: 64, Bitmap: 28, Window: 29, OutOfOrder: 30, EchoUs: 31},
			Notify:    rocev2.ONotifyFields{Message: 32, Queue: 33, Descriptor: 34, Length: 35, Status: 1},
			NotifyAck: rocev2.ONotifyAckFields{Message: 36, EchoUs: 37},
			Nak:       rocev2.ONakFields{Message: 38, Code: rocev2.ONakRemoteAccess},
		},
	}
	for i := range 256 {
		d.Opcode = rocev2.Opcode(i)
		if !d.Opcode.Known() {
			continue
		}
		p := gopacket.NewPacket(frame(t, d), gplayers.LayerTypeEthernet, gopacket.Default)
		for _, l := range p.Layers()[3:] {
			var got, want string
			switch l := l.(type) {
			case *BTH:
				got, want = fmt.Sprint(l.Opcode, l.DestQP, l.PSN, l.AckReq, l.PKey), fmt.Sprint(d.Opcode, 0x11, 77, true, 0xFFFF)
			case *FETH:
				got, want = fmt.Sprint(l.Placement, l.Selectivity), "2 0"
			case *DETH:
				got, want = fmt.Sprint(l.QKey, l.SrcQP), "1 2"
			case *RETH:
				got, want = fmt.Sprint(l.VA, l.RKey, l.DMALen), "3 4 5"
			case *AtomicETH:
				got, want = fmt.Sprint(l.VA, l.RKey, l.SwapOrAdd, l.Compare), "3 4 6 7"
			case *AETH:
				got, want = fmt.Sprint(l.Syndrome, l.MSN), "NAK(access) 9"
			case *AtomicAckETH:
				got, want = fmt.Sprint(l.Original), "10"
			case *ImmDt:
				got, want = fmt.Sprint(l.Value), "11"
			case *IETH:
				got, want = fmt.Sprint(l.RKey), "4"
			case *SACK:
				got, want = fmt.Sprint(l.Hi, l.Lo), "12 13"
			case *Hello:
				got, want = fmt.Sprint(l.Hello, l.Err), fmt.Sprint(d.Hello, nil)
			case *CreditGrant:
				got, want = fmt.Sprint(l.CreditFields, l.Version, l.LifeNs), "{1 14 15 16} 1 17"
			case *CreditReturn:
				got, want = fmt.Sprint(l.CreditFields, l.Version, l.Sent, l.Void), "{1 14 15 16} 1 18 19"
			case *RateLimit:
				got, want = fmt.Sprint(l.RateLimitFields, l.Version), "{40 41 42} 1"
			case *OETH:
				got, want = fmt.Sprint(l.OETHFields, l.Version), "{5 20 21 22 23 24} 1"
			case *OACK:
				got, want = fmt.Sprint(l.OACKFields), "{25 26 64 28 29 30 31}"
			case *ONotify:
				got, want = fmt.Sprint(l.ONotifyFields), "{32 33 34 35 1}"
			case *ONotifyAck:
				got, want = fmt.Sprint(l.ONotifyAckFields), "{36 37}"
			case *ONak:
				got, want = fmt.Sprint(l.ONakFields), "{38 remote access}"
			case *ICRC:
				got, want = fmt.Sprint(l.Err), "<nil>"
			}
			if got != want {
				t.Errorf("%s, %s: %s, want %s", d.Opcode, l.LayerType(), got, want)
			}
		}
	}
}

func TestIPv6AndVLAN(t *testing.T) {
	d := rocev2.Datagram{Src: src6, Dst: dst6, Opcode: rocev2.RCAck, Stamp: &rocev2.Stamp{T1: 5}}
	b := append(make([]byte, 12), 0x81, 0x00, 0x00, 0x05, 0x86, 0xDD)
	b, err := d.AppendTo(b)
	if err != nil {
		t.Fatal(err)
	}
	p := gopacket.NewPacket(b, gplayers.LayerTypeEthernet, gopacket.Default)
	if got := names(p); got != "Ethernet Dot1Q IPv6 UDP BTH AETH ICRC Stamp" {
		t.Fatal(got)
	}
	if err := p.Layer(LayerTypeICRC).(*ICRC).Err; err != nil {
		t.Error(err)
	}
}

func TestBadICRC(t *testing.T) {
	b := frame(t, rocev2.Datagram{Opcode: rocev2.RCSendOnly, Payload: []byte("abcd")})
	b[len(b)-6] ^= 1
	p := gopacket.NewPacket(b, gplayers.LayerTypeEthernet, gopacket.Default)
	if l := p.Layer(LayerTypeICRC).(*ICRC); l.Err != rocev2.ErrICRC {
		t.Errorf("verdict %v", l.Err)
	}
}

func TestForeignSurplus(t *testing.T) {
	b := frame(t, rocev2.Datagram{Opcode: rocev2.RCSendOnly, Stamp: &rocev2.Stamp{}})
	b[len(b)-1] ^= 1
	p := gopacket.NewPacket(b, gplayers.LayerTypeEthernet, gopacket.Default)
	if l, ok := p.Layer(LayerTypeSurplus).(*Surplus); !ok || l.Err != rocev2.ErrStampChecksum || len(l.Contents) != rocev2.StampLen {
		t.Errorf("surplus %+v in %s", l, names(p))
	}
}

// gopacket chooses by source port too, but a packet from 4791 to 53000 is not RoCEv2.
func TestSourcePort4791(t *testing.T) {
	b := frame(t, rocev2.Datagram{Opcode: rocev2.RCSendOnly, SrcPort: 4791})
	binary.BigEndian.PutUint16(b[14+20+2:], 53000)
	p := gopacket.NewPacket(b, gplayers.LayerTypeEthernet, gopacket.Default)
	if got := names(p); got != "Ethernet IPv4 UDP Payload" {
		t.Error(got)
	}
}

// In a tunnel gopacket's TransportLayer is the outer UDP; ours is the inner one.
func TestInsideVXLAN(t *testing.T) {
	inner := frame(t, rocev2.Datagram{Opcode: rocev2.RCAck, Stamp: &rocev2.Stamp{T1: 5}})
	buf := gopacket.NewSerializeBuffer()
	ip := &gplayers.IPv4{Version: 4, TTL: 64, Protocol: gplayers.IPProtocolUDP, SrcIP: src4.AsSlice(), DstIP: dst4.AsSlice()}
	err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true},
		ip, &gplayers.UDP{SrcPort: 50000, DstPort: 4789}, &gplayers.VXLAN{ValidIDFlag: true}, gopacket.Payload(inner))
	if err != nil {
		t.Fatal(err)
	}
	for _, opt := range []gopacket.DecodeOptions{gopacket.Default, gopacket.Lazy} {
		p := gopacket.NewPacket(buf.Bytes(), gplayers.LayerTypeIPv4, opt)
		if got := names(p); got != "IPv4 UDP VXLAN Ethernet IPv4 UDP BTH AETH ICRC Stamp" {
			t.Fatal(got)
		}
		if err := p.Layer(LayerTypeICRC).(*ICRC).Err; err != nil {
			t.Error(err)
		}
	}
}

func TestBareBTH(t *testing.T) {
	b := frame(t, rocev2.Datagram{Opcode: rocev2.RCWriteOnly, Payload: []byte("abc")})[14+20+8:]
	p := gopacket.NewPacket(b, LayerTypeBTH, gopacket.Default)
	if got := names(p); got != "BTH RETH Payload ICRC" {
		t.Fatal(got)
	}
	if l := p.Layer(LayerTypeICRC).(*ICRC); l.Err != rocev2.ErrNotIP {
		t.Errorf("verdict %v without an IP header", l.Err)
	}
	if !bytes.Equal(p.ApplicationLayer().LayerContents(), []byte("abc")) {
		t.Errorf("payload %q", p.ApplicationLayer().LayerContents())
	}
}

func TestEveryTruncation(t *testing.T) {
	full := frame(t, rocev2.Datagram{Opcode: rocev2.RCWriteOnly, Payload: []byte("abcd"), Stamp: &rocev2.Stamp{}})
	icrcEnd := len(full) - rocev2.StampLen
	for n := range full {
		p := gopacket.NewPacket(full[:n:n], gplayers.LayerTypeEthernet, gopacket.Default)
		if _, ok := p.Layer(LayerTypeICRC).(*ICRC); ok != (n >= icrcEnd) {
			t.Errorf("%d bytes: %s", n, names(p))
		}
		if n > 14+20+8 && !p.Metadata().Truncated {
			t.Errorf("%d bytes: not marked as truncated", n)
		}
	}
}

func FuzzLayers(f *testing.F) {
	f.Add(frame(f, rocev2.Datagram{Opcode: rocev2.RCWriteOnlyImm, Payload: []byte("abc"), Stamp: &rocev2.Stamp{}}))
	f.Add(frame(f, rocev2.Datagram{Opcode: rocev2.OpHello}))
	f.Add(frame(f, rocev2.Datagram{Opcode: rocev2.OpHello})[:42+13])
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, first := range []gopacket.LayerType{gplayers.LayerTypeEthernet, LayerTypeBTH} {
			p := gopacket.NewPacket(b, first, gopacket.Default)
			// gopacket recovers from panics, its own included (its IPsec layer has one).
			if e, ok := p.ErrorLayer().(*gopacket.DecodeFailure); ok && strings.Contains(e.Dump(), "rocev2/layers.decodeBTH") {
				t.Fatal(e.Dump())
			}
			_ = p.String()
		}
	})
}
