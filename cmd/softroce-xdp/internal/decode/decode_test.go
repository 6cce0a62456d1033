// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/softroce/softroce-xdp/rocev2"
)

var start = time.Date(2026, 11, 21, 10, 53, 0, 123456789, time.UTC)

const stampText = "2026-11-21T10:53:00.123456789Z"

// datagram builds one packet from 192.0.2.1 to 198.51.100.7.
func datagram(t testing.TB, d rocev2.Datagram) []byte {
	t.Helper()
	if !d.Src.IsValid() {
		d.Src, d.Dst = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.7")
	}
	b, err := d.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ethernet(b []byte) []byte { return append(append(make([]byte, 12), 0x08, 0x00), b...) }

// pcap writes a capture with nanosecond times; snap cuts every packet, 0 does not.
func pcap(t testing.TB, link linkType, snap int, packets ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriterNanos(&b)
	if err := w.WriteFileHeader(65535, layers.LinkType(link)); err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(b.Bytes()[20:], uint32(link))
	for _, p := range packets {
		ci := gopacket.CaptureInfo{Timestamp: start, CaptureLength: len(p), Length: len(p)}
		if snap > 0 && len(p) > snap {
			p, ci.CaptureLength = p[:snap], snap
		}
		if err := w.WritePacket(ci, p); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func decode(t *testing.T, capture []byte, o Options) ([]string, Summary) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.pcap")
	if err := os.WriteFile(file, capture, 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s, err := File(&out, file, o)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if last := lines[len(lines)-1]; last != s.String() {
		t.Errorf("last line %q, want the summary %q", last, s)
	}
	return lines[:len(lines)-1], s
}

func TestLines(t *testing.T) {
	v6 := rocev2.Datagram{Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::7")}
	for _, c := range []struct {
		d    rocev2.Datagram
		want string
	}{
		{
			rocev2.Datagram{Opcode: rocev2.RCWriteOnlyImm, DestQP: 0x11, PSN: 77, AckReq: true, VA: 0x7F0012345678, RKey: 0xCAFE0001, DMALen: 5, Imm: 9, Payload: []byte("hello"), TOS: 3},
			"192.0.2.1 > 198.51.100.7 RC_WRITE_ONLY_IMM qp 0x000011 psn 77 ackreq ce va 0x7f0012345678 rkey 0xcafe0001 len 5 imm 0x00000009 payload 5 icrc ok",
		},
		{
			rocev2.Datagram{Opcode: rocev2.RCAck, DestQP: 0x12, PSN: 77, Syndrome: 0x1F, MSN: 3, Stamp: &rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho | rocev2.StampCE, T1: 8, EchoT1: 0, EchoT2: 5}},
			"192.0.2.1 > 198.51.100.7 RC_ACK qp 0x000012 psn 77 ACK syndrome 0x1f msn 3 payload 0 icrc ok stamp t1 8 echo t1 0 t2 5 ce-seen flags 0x0b",
		},
		{
			rocev2.Datagram{Opcode: rocev2.RCAck, PSN: 4, Syndrome: 0x60, Stamp: &rocev2.Stamp{Flags: rocev2.StampCredit, T1: 8, Credit: 16, CreditSeq: 2}},
			"192.0.2.1 > 198.51.100.7 RC_ACK qp 0x000000 psn 4 NAK(PSN) syndrome 0x60 msn 0 payload 0 icrc ok stamp credit 16 seq 2 flags 0x04",
		},
		{rocev2.Datagram{Opcode: rocev2.RCAck, Syndrome: 0x2E}, "192.0.2.1 > 198.51.100.7 RC_ACK qp 0x000000 psn 0 RNR wait 1.28ms syndrome 0x2e msn 0 payload 0 icrc ok"},
		{rocev2.Datagram{Opcode: rocev2.RCAck, Syndrome: 0x0A}, "192.0.2.1 > 198.51.100.7 RC_ACK qp 0x000000 psn 0 ACK credits 32 syndrome 0x0a msn 0 payload 0 icrc ok"},
		{rocev2.Datagram{Opcode: rocev2.CNP, DestQP: 5}, "192.0.2.1 > 198.51.100.7 CNP qp 0x000005 psn 0 becn payload 16 icrc ok"},
		{
			rocev2.Datagram{Opcode: rocev2.RCCompareSwap, VA: 8, RKey: 1, SwapAdd: 2, Compare: 3},
			"192.0.2.1 > 198.51.100.7 RC_COMPARE_SWAP qp 0x000000 psn 0 va 0x8 rkey 0x00000001 compare 0x3 swap 0x2 payload 0 icrc ok",
		},
		{
			rocev2.Datagram{Opcode: rocev2.RCFetchAdd, VA: 8, RKey: 1, SwapAdd: 2},
			"192.0.2.1 > 198.51.100.7 RC_FETCH_ADD qp 0x000000 psn 0 va 0x8 rkey 0x00000001 add 0x2 payload 0 icrc ok",
		},
		{rocev2.Datagram{Opcode: rocev2.RCAtomicAck, Syndrome: 0x1F, Original: 7}, "192.0.2.1 > 198.51.100.7 RC_ATOMIC_ACK qp 0x000000 psn 0 ACK syndrome 0x1f msn 0 original 0x7 payload 0 icrc ok"},
		{
			rocev2.Datagram{Opcode: rocev2.UDSendOnly, DestQP: 1, SrcQP: 1, QKey: 0x80010000, Payload: make([]byte, 256)},
			"192.0.2.1 > 198.51.100.7 UD_SEND_ONLY qp 0x000001 psn 0 srcqp 0x000001 qkey 0x80010000 payload 256 icrc ok",
		},
		{rocev2.Datagram{Opcode: rocev2.RCSendOnlyInv, RKey: 9, Solicited: true}, "192.0.2.1 > 198.51.100.7 RC_SEND_ONLY_INV qp 0x000000 psn 0 solicited invalidate 0x00000009 payload 0 icrc ok"},
		{rocev2.Datagram{Opcode: rocev2.OpSACK, SACKHi: 1, SACKLo: 2}, "192.0.2.1 > 198.51.100.7 SACK qp 0x000000 psn 0 ACK credits 0 syndrome 0x00 msn 0 sack 0x00000000000000010000000000000002 payload 0 icrc ok"},
		{
			rocev2.Datagram{Opcode: rocev2.OpHello, DestQP: rocev2.ControlQPN, Hello: rocev2.Hello{Node: 4, Caps: 5, LinkMbps: 100000, Nonce: 0xABC}, Stamp: &rocev2.Stamp{}},
			"192.0.2.1 > 198.51.100.7 HELLO qp 0xfffffe psn 0 node 4 caps 0x5 link 100000 Mbit/s nonce 0x0000000000000abc payload 0 icrc ok stamp flags 0x00",
		},
		{
			rocev2.Datagram{Opcode: rocev2.OpEcho, DestQP: rocev2.ControlQPN, Stamp: &rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, T1: 9, EchoT1: 3, EchoT2: 5}},
			"192.0.2.1 > 198.51.100.7 ECHO qp 0xfffffe psn 0 payload 0 icrc ok stamp t1 9 echo t1 3 t2 5 flags 0x03",
		},
		{
			rocev2.Datagram{Opcode: rocev2.OpRateLimit, DestQP: rocev2.ControlQPN, RateLimit: rocev2.RateLimitFields{Epoch: 5, RateBps: 30e6, LifeNs: 1e9}},
			"192.0.2.1 > 198.51.100.7 RATE_LIMIT qp 0xfffffe psn 0 epoch 5 rate 30000000 bit/s life 1s payload 0 icrc ok",
		},
		{
			rocev2.Datagram{Opcode: rocev2.OpCreditGrant, DestQP: rocev2.ControlQPN, Credit: rocev2.CreditFields{Flags: rocev2.CreditOpen, Epoch: 5, Limit: 65536, Seq: 7}, LifeNs: 1e9},
			"192.0.2.1 > 198.51.100.7 CREDIT_GRANT qp 0xfffffe psn 0 epoch 5 seq 7 limit 65536 flags 0x0001 life 1s payload 0 icrc ok",
		},
		{
			rocev2.Datagram{Opcode: rocev2.OpCreditReturn, DestQP: rocev2.ControlQPN, Credit: rocev2.CreditFields{Epoch: 5, Limit: 65536, Seq: 7}, Sent: 4096, Void: 10},
			"192.0.2.1 > 198.51.100.7 CREDIT_RETURN qp 0xfffffe psn 0 epoch 5 seq 7 limit 65536 flags 0x0000 sent 4096 void 10 payload 0 icrc ok",
		},
		{
			rocev2.Datagram{Opcode: rocev2.OpOWrite, DestQP: 5, PSN: 9, Payload: []byte("hello"), OOO: &rocev2.OOOFields{OETH: rocev2.OETHFields{Flags: 15, Index: 2, Message: 3, VA: 0x1000, RKey: 4, Length: 5}}},
			"192.0.2.1 > 198.51.100.7 OWRITE qp 0x000005 psn 9 message 3 index 2 first last retry solicited-notify va 0x1000 rkey 0x00000004 len 5 payload 5 icrc ok",
		},
		{
			rocev2.Datagram{Opcode: rocev2.OpOReadReq, OOO: &rocev2.OOOFields{OETH: rocev2.OETHFields{Flags: 1, Length: 5}}},
			"192.0.2.1 > 198.51.100.7 OREAD_REQ qp 0x000000 psn 0 message 0 index 0 first va 0x0 rkey 0x00000000 len 5 payload 0 icrc ok",
		},
		{
			rocev2.Datagram{Opcode: rocev2.OpOReadResp},
			"192.0.2.1 > 198.51.100.7 OREAD_RESP qp 0x000000 psn 0 (OETH of another version) payload 0 icrc ok",
		},
		{
			rocev2.Datagram{Opcode: rocev2.OpOAck, PSN: 70, OOO: &rocev2.OOOFields{OACK: rocev2.OACKFields{Message: 3, Cumulative: 64, Base: 64, Bitmap: 0x41, Window: 256, OutOfOrder: 1, EchoUs: 8}}},
			"192.0.2.1 > 198.51.100.7 OACK qp 0x000000 psn 70 message 3 cumulative 64 base 64 bitmap 0x0000000000000041 window 256 out-of-order 1 echo 8 us payload 0 icrc ok",
		},
		{
			rocev2.Datagram{Opcode: rocev2.OpONotify, PSN: 71, OOO: &rocev2.OOOFields{Notify: rocev2.ONotifyFields{Message: 3, Queue: 4, Descriptor: 0xABC, Length: 5, Status: 1}}},
			"192.0.2.1 > 198.51.100.7 ONOTIFY qp 0x000000 psn 71 message 3 queue 4 descriptor 0x0000000000000abc len 5 status 0x1 payload 0 icrc ok",
		},
		{
			rocev2.Datagram{Opcode: rocev2.OpONotifyAck, PSN: 71, OOO: &rocev2.OOOFields{NotifyAck: rocev2.ONotifyAckFields{Message: 3, EchoUs: 9}}},
			"192.0.2.1 > 198.51.100.7 ONOTIFY_ACK qp 0x000000 psn 71 message 3 echo 9 us payload 0 icrc ok",
		},
		{
			rocev2.Datagram{Opcode: rocev2.OpONak, PSN: 71, OOO: &rocev2.OOOFields{Nak: rocev2.ONakFields{Message: 3, Code: rocev2.ONakNotReady}}},
			"192.0.2.1 > 198.51.100.7 ONAK qp 0x000000 psn 71 message 3 not ready payload 0 icrc ok",
		},
		{
			rocev2.Datagram{Src: v6.Src, Dst: v6.Dst, Opcode: rocev2.RCSendOnly, Payload: []byte("abc")},
			"2001:db8::1 > 2001:db8::7 RC_SEND_ONLY qp 0x000000 psn 0 payload 3 icrc ok",
		},
	} {
		lines, s := decode(t, pcap(t, linkRaw, 0, datagram(t, c.d)), Options{})
		if len(lines) != 1 || lines[0] != stampText+" "+c.want {
			t.Errorf("got\n%s\nwant\n%s %s", strings.Join(lines, "\n"), stampText, c.want)
		}
		if s.RoCE != 1 || s.GoodICRC != 1 || (s.Stamped == 1) != (c.d.Stamp != nil) {
			t.Errorf("%s: %s", c.d.Opcode, s)
		}
	}
}

func TestVLAN(t *testing.T) {
	b := datagram(t, rocev2.Datagram{Opcode: rocev2.RCSendOnly})
	one := append(append(make([]byte, 12), 0x81, 0, 0x20, 100, 0x08, 0), b...)
	two := append(append(make([]byte, 12), 0x88, 0xA8, 0, 7, 0x81, 0, 0, 100, 0x08, 0), b...)
	lines, _ := decode(t, pcap(t, linkEthernet, 0, one, two), Options{})
	if len(lines) != 2 || !strings.Contains(lines[0], " vlan 100 RC_SEND_ONLY") || !strings.Contains(lines[1], " vlan 7.100 RC_SEND_ONLY") {
		t.Errorf("%q", lines)
	}
}

func TestBadICRC(t *testing.T) {
	b := datagram(t, rocev2.Datagram{Opcode: rocev2.RCSendOnly, Payload: []byte("abcd")})
	want := binary.LittleEndian.Uint32(b[len(b)-4:])
	b[len(b)-1] ^= 0x80
	lines, s := decode(t, pcap(t, linkRaw, 0, b), Options{})
	if s.BadICRC != 1 || s.GoodICRC != 0 || len(lines) != 1 || !strings.Contains(lines[0], "icrc BAD (0x") ||
		!strings.Contains(lines[0], "should be 0x"+hex32(want)) {
		t.Errorf("%q, %s", lines, s)
	}
	if got := s.String(); got != "1 packets: 1 RoCEv2 (ICRC 0 ok, 1 BAD, 0 not checked; 0 stamped), 0 malformed, 0 other" {
		t.Error(got)
	}
}

func hex32(v uint32) string {
	const digits = "0123456789abcdef"
	b := make([]byte, 8)
	for i := range b {
		b[7-i] = digits[v>>(4*i)&15]
	}
	return string(b)
}

// A snap length cuts packets: their ICRC is neither good nor bad. A wrong packet
// cut short must not count as bad either.
func TestTruncated(t *testing.T) {
	b := ethernet(datagram(t, rocev2.Datagram{Opcode: rocev2.RCWriteOnly, Payload: make([]byte, 1024)}))
	lines, s := decode(t, pcap(t, linkEthernet, 96, b), Options{})
	if s.Unchecked != 1 || s.BadICRC != 0 || !strings.HasSuffix(lines[0], "RC_WRITE_ONLY qp 0x000000 psn 0 va 0x0 rkey 0x00000000 len 0 payload 1024 truncated: ICRC not checked") {
		t.Errorf("%q, %s", lines, s)
	}
	lines, s = decode(t, pcap(t, linkEthernet, 60, b), Options{})
	if s.Unchecked != 1 || s.RoCE != 1 || !strings.Contains(lines[0], "truncated inside its headers: ICRC not checked") {
		t.Errorf("%q, %s", lines, s)
	}
	// The same bytes as a whole packet are no truncated capture but a damaged packet.
	if _, s := decode(t, pcap(t, linkEthernet, 0, b[:60]), Options{}); s.Malformed != 1 || s.RoCE != 0 {
		t.Errorf("a frame of 60 bytes: %s", s)
	}
	// Every length: never bad, never a panic.
	for n := 1; n < len(b); n += 7 {
		if _, s := decode(t, pcap(t, linkEthernet, n, b), Options{}); s.BadICRC != 0 || s.Malformed != 0 || s.Packets != 1 {
			t.Errorf("snap length %d: %s", n, s)
		}
	}
}

func TestOthersAndMalformed(t *testing.T) {
	arp := append(make([]byte, 12), 0x08, 0x06, 0, 1)
	good := ethernet(datagram(t, rocev2.Datagram{Opcode: rocev2.RCSendOnly}))
	bad := bytes.Clone(good)
	bad[14+20+5] = 200 // UDP length above the IP length
	file := pcap(t, linkEthernet, 0, arp, good, bad)

	lines, s := decode(t, file, Options{})
	if s != (Summary{Packets: 3, RoCE: 1, Malformed: 1, Other: 1, GoodICRC: 1}) || len(lines) != 2 ||
		!strings.HasSuffix(lines[1], " malformed RoCEv2: UDP length does not fit the IP length or is too small for BTH and ICRC") {
		t.Errorf("%q, %s", lines, s)
	}
	lines, _ = decode(t, file, Options{All: true})
	if len(lines) != 3 || lines[0] != stampText+" not IPv4 or IPv6, 16 bytes" {
		t.Errorf("with All: %q", lines)
	}
	if lines, _ = decode(t, file, Options{All: true, Quiet: true}); len(lines) != 0 {
		t.Errorf("with Quiet: %q", lines)
	}
}

func TestLinkTypes(t *testing.T) {
	b := datagram(t, rocev2.Datagram{Opcode: rocev2.RCSendOnly})
	sll := append(append(make([]byte, 14), 0x08, 0), b...)
	sll2 := append(append([]byte{0x08, 0}, make([]byte, 18)...), b...)
	for link, packet := range map[linkType][]byte{
		linkEthernet: ethernet(b), linkRaw: b, linkRawOld: b, linkIPv4: b, linkSLL: sll, linkSLL2: sll2,
	} {
		if _, s := decode(t, pcap(t, link, 0, packet), Options{}); s.GoodICRC != 1 {
			t.Errorf("link type %d: %s", link, s)
		}
		if link != linkRaw {
			for n := range packet {
				link.parse(packet[:n])
			}
		}
	}
	_, err := Stream(io.Discard, bytes.NewReader(pcap(t, 127, 0, b)), "wifi.pcap", Options{})
	if err == nil || err.Error() != "wifi.pcap: packet 1: link type 127 is not supported: capture on an Ethernet interface or with -i any" {
		t.Errorf("802.11: %v", err)
	}
}

func TestPcapNG(t *testing.T) {
	b := datagram(t, rocev2.Datagram{Opcode: rocev2.RCSendOnly})
	var file bytes.Buffer
	eth, raw := pcapgo.DefaultNgInterface, pcapgo.DefaultNgInterface
	eth.LinkType, raw.LinkType = layers.LinkTypeEthernet, layers.LinkType(linkRaw)
	w, err := pcapgo.NewNgWriterInterface(&file, eth, pcapgo.DefaultNgWriterOptions)
	if err != nil {
		t.Fatal(err)
	}
	id, err := w.AddInterface(raw)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range map[int][]byte{0: ethernet(b), id: b} {
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: start, CaptureLength: len(p), Length: len(p), InterfaceIndex: i}, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	lines, s := decode(t, file.Bytes(), Options{})
	if s.GoodICRC != 2 || !strings.HasPrefix(lines[0], stampText) {
		t.Errorf("%q, %s", lines, s)
	}
}

func TestErrors(t *testing.T) {
	whole := pcap(t, linkRaw, 0, datagram(t, rocev2.Datagram{Opcode: rocev2.RCSendOnly}))
	for _, c := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"empty", nil, "the file is empty"},
		{"text", []byte(strings.Repeat("no capture at all ", 9)), "not a pcap or pcapng capture: write one with `tcpdump"},
		{"short", []byte("short"), "not a pcap or pcapng capture"},
		{"gzip", []byte{0x1F, 0x8B, 8, 0}, "zcat"},
		{"cut", whole[:len(whole)-3], "after packet 0: the file ends inside a packet: the capture was cut off"},
		{"cut in the packet header", whole[:30], "the file ends inside a packet"},
		{"pcapng", append([]byte{0x0A, 0x0D, 0x0D, 0x0A}, make([]byte, 40)...), "damaged pcapng"},
	} {
		_, err := Stream(io.Discard, bytes.NewReader(c.content), "x.pcap", Options{})
		if err == nil || !strings.HasPrefix(err.Error(), "x.pcap: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want …%s", c.name, err, c.want)
		}
	}
	if _, err := File(io.Discard, filepath.Join(t.TempDir(), "missing"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := File(io.Discard, t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("directory: %v", err)
	}
}

// What was read before the damage is printed and counted.
func TestDamageAfterGoodPackets(t *testing.T) {
	b := datagram(t, rocev2.Datagram{Opcode: rocev2.RCSendOnly})
	file := pcap(t, linkRaw, 0, b, b)
	var out strings.Builder
	s, err := Stream(&out, bytes.NewReader(file[:len(file)-1]), "x", Options{})
	if err == nil || s.GoodICRC != 1 || strings.Count(out.String(), "icrc ok") != 1 {
		t.Errorf("%v, %s, %q", err, s, out.String())
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWriteError(t *testing.T) {
	file := pcap(t, linkRaw, 0, datagram(t, rocev2.Datagram{Opcode: rocev2.RCSendOnly}))
	if _, err := Stream(brokenPipe{}, bytes.NewReader(file), "x", Options{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}

func FuzzStream(f *testing.F) {
	b := datagram(f, rocev2.Datagram{Opcode: rocev2.RCWriteOnly, Payload: []byte("abc"), Stamp: &rocev2.Stamp{}})
	f.Add(pcap(f, linkRaw, 0, b))
	f.Add(pcap(f, linkEthernet, 0, ethernet(b)))
	f.Add(append([]byte{0x0A, 0x0D, 0x0D, 0x0A, 28, 0, 0, 0, 0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0}, make([]byte, 12)...))
	f.Fuzz(func(t *testing.T, file []byte) {
		s, _ := Stream(io.Discard, bytes.NewReader(file), "fuzz", Options{All: true})
		if s.RoCE != s.GoodICRC+s.BadICRC+s.Unchecked || s.Packets < s.RoCE+s.Malformed+s.Other {
			t.Errorf("%+v does not add up", s)
		}
	})
}
