// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	gplayers "github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// luaCases are packets, and what docs/reference/softroce.lua must show of them.
func luaCases() []struct {
	d      rocev2.Datagram
	fields string // name=value, in any order; all that are not there must be absent
} {
	stamp := &rocev2.Stamp{Flags: 5, Token: 0x1122, T1: 3_000_000_001, EchoT1: 4_000_000_002, EchoT2: 5_000_000_003, Credit: 6, CreditSeq: 7}
	const stampFields = " stamp.flags=0x05 stamp.version=2 stamp.token=0x0000000000001122 stamp.t1=3000000001 stamp.echo_t1=4000000002" +
		" stamp.echo_t2=5000000003 stamp.credit=6 stamp.credit_seq=7"
	credit := rocev2.CreditFields{Flags: 1, Epoch: 14, Limit: 15, Seq: 16}
	ooo := &rocev2.OOOFields{
		OETH:      rocev2.OETHFields{Flags: rocev2.OFirst | rocev2.ORetry, Index: 0x123456, Message: 21, VA: 0x1122334455667788, RKey: 0xCAFE0001, Length: 5},
		OACK:      rocev2.OACKFields{Message: 25, Cumulative: 0xABCDEF, Base: 0xABCDC0, Bitmap: 0x8000000000000001, Window: 256, OutOfOrder: 30, EchoUs: 31},
		Notify:    rocev2.ONotifyFields{Message: 32, Queue: 33, Descriptor: 34, Length: 35, Status: 1},
		NotifyAck: rocev2.ONotifyAckFields{Message: 36, EchoUs: 37},
		Nak:       rocev2.ONakFields{Message: 38, Code: rocev2.ONakNotReady},
	}
	const oeth = " oeth.version=1 oeth.first=1 oeth.last=0 oeth.retry=1 oeth.solicited=0 oeth.index=1193046 message=21" +
		" oeth.va=0x1122334455667788 oeth.rkey=0xcafe0001 oeth.length=5"
	const hello = " hello.version=2 hello.node=4 hello.caps=0x00000009 hello.link_mbps=100 hello.nonce=0x0000000000000005 hello.token=0x0000000000000006"
	h := rocev2.Hello{Node: 4, Caps: 9, LinkMbps: 100, Nonce: 5, Token: 6}
	const grant = " credit.version=1 credit.flags=0x0001 credit.epoch=14 credit.limit=15 credit.seq=16"
	return []struct {
		d      rocev2.Datagram
		fields string
	}{
		{rocev2.Datagram{Opcode: rocev2.OpHello, Hello: h, Stamp: stamp}, "opcode=0xc0" + hello + stampFields},
		{rocev2.Datagram{Opcode: rocev2.OpHelloAck, Hello: h}, "opcode=0xc1" + hello},
		{rocev2.Datagram{Opcode: rocev2.OpCreditGrant, Credit: credit, LifeNs: 17}, "opcode=0xc2" + grant + " credit.life_ns=17"},
		{rocev2.Datagram{Opcode: rocev2.OpCreditReturn, Credit: credit, Sent: 18, Void: 19}, "opcode=0xc3" + grant + " credit.sent=18 credit.void=19"},
		{rocev2.Datagram{Opcode: rocev2.OpSACK, Syndrome: 0x1F, MSN: 9, SACKHi: 1, SACKLo: 2}, "opcode=0xc4 sack.syndrome=0x1f sack.msn=9 sack.bitmap_hi=0x0000000000000001 sack.bitmap_lo=0x0000000000000002"},
		{rocev2.Datagram{Opcode: rocev2.OpRateLimit, RateLimit: rocev2.RateLimitFields{Epoch: 20, RateBps: 22, LifeNs: 23}}, "opcode=0xc5 rate_limit.version=1 rate_limit.epoch=20 rate_limit.rate_bps=22 rate_limit.life_ns=23"},
		{rocev2.Datagram{Opcode: rocev2.OpEcho, Stamp: stamp}, "opcode=0xc6" + stampFields},
		{rocev2.Datagram{Opcode: rocev2.OpOWrite, OOO: ooo, Payload: []byte("hello"), Stamp: stamp}, "opcode=0xc8" + oeth + stampFields},
		{rocev2.Datagram{Opcode: rocev2.OpOReadReq, OOO: ooo}, "opcode=0xc9" + oeth},
		{rocev2.Datagram{Opcode: rocev2.OpOReadResp, OOO: ooo, Payload: []byte("hello")}, "opcode=0xca" + oeth},
		{rocev2.Datagram{Opcode: rocev2.OpOAck, OOO: ooo}, "opcode=0xcc message=25 oack.cumulative=11259375 oack.base=11259328 oack.bitmap=0x8000000000000001 oack.window=256 oack.out_of_order=30 oack.echo_us=31"},
		{rocev2.Datagram{Opcode: rocev2.OpONotify, OOO: ooo}, "opcode=0xcd message=32 onotify.queue=33 onotify.descriptor=0x0000000000000022 onotify.length=35 onotify.status=0x00000001"},
		{rocev2.Datagram{Opcode: rocev2.OpONotifyAck, OOO: ooo}, "opcode=0xce message=36 onotify_ack.echo_us=37"},
		{rocev2.Datagram{Opcode: rocev2.OpONak, OOO: ooo}, "opcode=0xcf message=38 onak.code=0x20"},
		{rocev2.Datagram{Opcode: rocev2.RCWriteOnly, Payload: []byte("x"), Stamp: stamp}, strings.TrimSpace(stampFields)},
		{rocev2.Datagram{Opcode: rocev2.RCWriteOnly, Payload: []byte("x")}, ""},
	}
}

// The dissector for Wireshark shows every field of our packets.
func TestLuaDissector(t *testing.T) {
	require.Command(t, "tshark")
	var names []string
	for _, c := range luaCases() {
		for _, f := range strings.Fields(c.fields) {
			name, _, _ := strings.Cut(f, "=")
			if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ") {
				names = append(names, name)
			}
		}
	}
	for _, v6 := range []bool{false, true} {
		lines := dissect(t, names, v6)
		if len(lines) != len(luaCases()) {
			t.Fatalf("tshark printed %d lines for %d packets:\n%s", len(lines), len(luaCases()), strings.Join(lines, "\n"))
		}
		for i, c := range luaCases() {
			got := map[string]string{}
			for j, value := range strings.Split(lines[i], "|") {
				if value != "" {
					got[names[j]] = value
				}
			}
			want := strings.Fields(c.fields)
			if len(got) != len(want) {
				t.Errorf("%s: %d fields, want %d: %v", c.d.Opcode, len(got), len(want), got)
			}
			for _, f := range want {
				if name, value, _ := strings.Cut(f, "="); got[name] != value {
					t.Errorf("%s: %s = %q, want %q", c.d.Opcode, name, got[name], value)
				}
			}
		}
	}
}

// dissect returns what tshark prints of these fields, one line a packet.
func dissect(t *testing.T, names []string, v6 bool) []string {
	t.Helper()
	var file bytes.Buffer
	w := pcapgo.NewWriter(&file)
	if err := w.WriteFileHeader(65535, gplayers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for _, c := range luaCases() {
		c.d.Src, c.d.Dst = src4, dst4
		link := append(make([]byte, 12), 0x08, 0x00)
		if v6 {
			c.d.Src, c.d.Dst, link[12], link[13] = src6, dst6, 0x86, 0xDD
		}
		b, err := c.d.AppendTo(link)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(b), Length: len(b)}, b); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "ours.pcap")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	const script = "../../docs/reference/softroce.lua"
	if _, err := os.ReadFile(script); err != nil { // also tells `go test` that the result depends on it
		t.Fatal(err)
	}
	args := []string{"-X", "lua_script:" + script, "-r", path, "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"}
	for _, name := range names {
		args = append(args, "-e", "softroce."+name)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "tshark", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || strings.Contains(stderr.String(), "Lua: Error") {
		t.Fatalf("tshark: %v\n%s", err, stderr.Bytes())
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}
