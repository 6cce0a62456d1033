// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/samples"
)

// Real traffic of rxe through both programs, in both directions as it was captured:
// ingress turns each stamped packet into the plain one byte for byte and leaves
// plain ones alone, and egress adds to the plain one nothing but a valid option.
func TestCapturedTraffic(t *testing.T) {
	files, err := filepath.Glob("../rocev2/testdata/captures/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	shared := newLab(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".pcap")
		if name == "hello" {
			continue // answered, not passed: TestCapturedHello
		}
		t.Run(name, func(t *testing.T) {
			l := shared.with(t)
			for i, frame := range samples.Frames(t, file) {
				p, err := rocev2.ParseFrame(frame)
				if err != nil {
					t.Fatal(err)
				}
				s, err := p.Stamp()
				stamped := err == nil
				if stamped != strings.HasSuffix(name, "-stamped") {
					t.Fatalf("packet %d: %v", i+1, err)
				}
				plain := frame
				if stamped {
					datagram, _, err := rocev2.StripStamp(bytes.Clone(p.Datagram()))
					if err != nil {
						t.Fatal(err)
					}
					plain = slices.Concat(p.LinkHeader(), datagram)
					l.at(s.T1 + 1000)
				}

				l.asHost(frame[:6])
				l.know(p.Src(), aware, func(d *bpf.DestRegs) { d.RxToken = s.Token })
				verdict, out := l.in(frame)
				if verdict != xdpPass || !bytes.Equal(out, plain) {
					t.Errorf("packet %d in: verdict %d\n got %x\nwant %x", i+1, verdict, out, plain)
				}
				if d := l.regs(p.Src()); stamped && d.InTxNs != 1000 {
					t.Errorf("packet %d: the peer's transmit time is %d ns, want 1000", i+1, d.InTxNs)
				}

				l.asHost(frame[6:12])
				l.know(p.Dst(), aware)
				verdict, out = l.out(plain)
				q, err := rocev2.ParseFrame(out)
				if err != nil {
					t.Fatalf("packet %d out: verdict %d, %v", i+1, verdict, err)
				}
				back, _, err := rocev2.StripStamp(bytes.Clone(q.Datagram()))
				if verdict != tcNext || err != nil || !bytes.Equal(slices.Concat(q.LinkHeader(), back), plain) {
					t.Errorf("packet %d out: verdict %d, %v\n got %x\nwant %x and the option", i+1, verdict, err, out, plain)
				}
			}
		})
	}
}

// asHost gives the host a MAC address.
func (l *lab) asHost(mac []byte) {
	l.t.Helper()
	l.config(func(c *bpf.Config) { c.Mac = [6]byte(mac) })
}

// The HELLOs that two machines exchanged: each is answered as it was then.
func TestCapturedHello(t *testing.T) {
	l := newLab(t)
	hellos := 0
	for i, frame := range samples.Frames(t, "../rocev2/testdata/captures/hello.pcap") {
		p, err := rocev2.ParseFrame(frame)
		if err != nil {
			t.Fatal(err)
		}
		if p.Opcode() != rocev2.OpHello {
			continue
		}
		hellos++
		l.asHost(frame[:6])
		verdict, out := l.in(frame)
		q, err := rocev2.ParseFrame(out)
		if verdict != xdpTX || err != nil {
			t.Errorf("packet %d: verdict %d, %v", i+1, verdict, err)
			continue
		}
		if err := q.VerifyICRC(); err != nil || q.Opcode() != rocev2.OpHelloAck || q.Dst() != p.Src() {
			t.Errorf("packet %d: answered with %s to %s, ICRC %v", i+1, q.Opcode(), q.Dst(), err)
		}
		asked, err1 := p.Hello()
		answer, err2 := q.Hello()
		if err1 != nil || err2 != nil || answer.Nonce != asked.Nonce || answer.Token != tokenOf(p.Src()) {
			t.Errorf("packet %d: %+v answered with %+v (%v, %v)", i+1, asked, answer, err1, err2)
		}
	}
	if hellos == 0 {
		t.Error("no HELLO in the capture")
	}
}
