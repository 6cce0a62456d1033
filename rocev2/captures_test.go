// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/samples"
)

// captureOpcodes are what each golden capture must show, over IPv4 and over IPv6.
// testdata/captures/README.md says how they were taken.
var captureOpcodes = map[string][]Opcode{
	"rc-write":  {RCWriteFirst, RCWriteMiddle, RCWriteLast, RCAck},
	"rc-read":   {RCReadRequest, RCReadResponseFirst, RCReadResponseMiddle, RCReadResponseLast},
	"rc-send":   {RCSendFirst, RCSendMiddle, RCSendLast, RCAck},
	"rc-atomic": {RCFetchAdd, RCCompareSwap, RCAtomicAck},
	"uc":        {UCSendFirst, UCSendMiddle, UCSendLast, UCWriteFirst, UCWriteMiddle, UCWriteLast},
	"ud":        {UDSendOnly},
	"cm":        {UDSendOnly, RCSendOnly, RCReadRequest, RCReadResponseOnly, RCWriteOnly, RCAck},
	"hello":     {OpHello, OpHelloAck},
}

type captured struct {
	n int // packet number in the file, from 1, as tshark counts
	Packet
}

// readGolden returns the packets of a golden capture; all of them are RoCEv2.
func readGolden(t *testing.T, name string) []captured {
	t.Helper()
	var all []captured
	for i, frame := range samples.Frames(t, filepath.Join("testdata/captures", name+".pcap")) {
		p, err := ParseFrame(frame)
		if err != nil {
			t.Fatalf("%s: packet %d: %v", name, i+1, err)
		}
		all = append(all, captured{i + 1, p})
	}
	return all
}

// goldenNames lists the captures that must be there, and fails if others are.
func goldenNames(t *testing.T) []string {
	t.Helper()
	names := slices.Collect(maps.Keys(captureOpcodes))
	for name := range captureOpcodes {
		if name != "hello" {
			names = append(names, name+"-stamped")
		}
	}
	slices.Sort(names)
	files, err := filepath.Glob("testdata/captures/*.pcap")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, f := range files {
		have = append(have, strings.TrimSuffix(filepath.Base(f), ".pcap"))
	}
	slices.Sort(have)
	if !slices.Equal(have, names) {
		t.Fatalf("captures %v, want %v", have, names)
	}
	return names
}

// eachGolden runs a test for each capture.
func eachGolden(t *testing.T, f func(t *testing.T, name string, packets []captured)) {
	t.Helper()
	for _, name := range goldenNames(t) {
		t.Run(name, func(t *testing.T) { f(t, name, readGolden(t, name)) })
	}
}

// What Linux's rxe and our data plane put on the wire: the ICRC of every packet
// verifies, and all the opcodes are there.
func TestCapturesVerify(t *testing.T) {
	eachGolden(t, func(t *testing.T, name string, packets []captured) {
		kind, stamped := strings.CutSuffix(name, "-stamped")
		seen := map[bool]map[Opcode]bool{false: {}, true: {}}
		for _, p := range packets {
			if err := p.VerifyICRC(); err != nil {
				t.Errorf("packet %d: %v", p.n, err)
			}
			seen[p.IsIPv6()][p.Opcode()] = true
		}
		want := map[Opcode]bool{}
		for _, op := range captureOpcodes[kind] {
			want[op] = true
		}
		for v6, ops := range seen {
			for op := range want {
				if !ops[op] {
					t.Errorf("no %s (IPv6 %v)", op, v6)
				}
			}
			for op := range ops {
				// A host that has nothing to send at that moment sends an ECHO.
				if !want[op] && (op != OpEcho || !stamped && name != "hello") {
					t.Errorf("unexpected %s (IPv6 %v)", op, v6)
				}
			}
		}
	})
}

// With the product on both sides every packet is stamped, its option decodes, and
// responses echo what came before; without, none has a surplus area.
func TestCapturesStamps(t *testing.T) {
	eachGolden(t, func(t *testing.T, name string, packets []captured) {
		want := name == "hello" || strings.HasSuffix(name, "-stamped")
		sent := map[string]map[uint64]bool{}
		for _, p := range packets {
			s, err := p.Stamp()
			if !want {
				if len(p.Surplus()) > 0 {
					t.Errorf("packet %d has %d bytes of surplus", p.n, len(p.Surplus()))
				}
				continue
			}
			if err != nil {
				t.Errorf("packet %d: %v", p.n, err)
				continue
			}
			if s.Flags&StampT1 == 0 || s.T1 == 0 {
				t.Errorf("packet %d: no T1: %+v", p.n, s)
			}
			src, dst := p.Src().String(), p.Dst().String()
			if sent[src] == nil {
				sent[src] = map[uint64]bool{}
			}
			sent[src][s.T1] = true
			if s.Flags&StampEcho == 0 {
				if p.AETH() != nil {
					t.Errorf("packet %d: a response without an echo", p.n)
				}
				continue
			}
			// The capture of HELLO leaves out the traffic that was echoed meanwhile.
			if name != "hello" && len(sent[dst]) > 0 && !sent[dst][s.EchoT1] {
				t.Errorf("packet %d echoes T1 %d, which %s never sent", p.n, s.EchoT1, dst)
			}
		}
	})
}

// A stamped packet without its option is the packet that rxe sent: its ICRC and
// header checksum verify, and stamping it again gives the bytes of the wire.
func TestCapturesStrip(t *testing.T) {
	eachGolden(t, func(t *testing.T, _ string, packets []captured) {
		for _, p := range packets {
			wire := p.Datagram()
			plain := unstamped(t, p)
			q, err := ParseIP(plain)
			if err != nil {
				t.Errorf("packet %d: %v", p.n, err)
				continue
			}
			if err := q.VerifyICRC(); err != nil || len(q.Surplus()) > 0 {
				t.Errorf("packet %d stripped: %v, %d bytes of surplus", p.n, err, len(q.Surplus()))
			}
			if !q.IsIPv6() && onesSum(0, q.IPHeader()) != 0xFFFF {
				t.Errorf("packet %d stripped: wrong header checksum", p.n)
			}
			s, err := p.Stamp()
			if err != nil {
				continue
			}
			if again, err := AppendStamp(plain, &s); err != nil || !bytes.Equal(again, wire) {
				t.Errorf("packet %d stamped again: %v\n%x, was\n%x", p.n, err, again, wire)
			}
		}
	})
}

// unstamped returns a copy of the datagram without the option.
func unstamped(t *testing.T, p captured) []byte {
	t.Helper()
	b := bytes.Clone(p.Datagram())
	if len(p.Surplus()) == 0 {
		return b
	}
	b, _, err := StripStamp(b)
	if err != nil {
		t.Fatalf("packet %d: %v", p.n, err)
	}
	return b
}

// scapy computes the same ICRC for every IPv4 packet of the captures.
func TestScapyAgreesOnCaptures(t *testing.T) {
	needScapy(t)
	var datagrams [][]byte
	for _, name := range goldenNames(t) {
		for _, p := range readGolden(t, name) {
			if !p.IsIPv6() {
				datagrams = append(datagrams, unstamped(t, p))
			}
		}
	}
	if len(datagrams) < 100 {
		t.Errorf("only %d IPv4 packets", len(datagrams))
	}
	compareScapy(t, datagrams)
}
