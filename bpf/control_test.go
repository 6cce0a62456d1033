// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
)

const (
	helloNonce = 0xfeedfacecafe
	regsNonce  = 0x1122334455667788 // of the entries that lab.know makes
)

func hello(v6 bool) rocev2.Datagram {
	d := rocev2.Datagram{Src: peer4, Dst: us4, IPID: 99, SrcPort: 0xC123, Opcode: rocev2.OpHello, DestQP: rocev2.ControlQPN,
		Hello: rocev2.Hello{Node: 4, Caps: 0x3, LinkMbps: 25000, Nonce: helloNonce},
		Stamp: &rocev2.Stamp{Flags: rocev2.StampT1, T1: labStart - 700}}
	if v6 {
		d = over6(d)
	}
	return d
}

func helloAck(v6 bool, nonce uint64) rocev2.Datagram {
	d := hello(v6)
	d.Opcode, d.Hello.Nonce = rocev2.OpHelloAck, nonce
	d.Stamp = &rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, T1: labStart - 40, EchoT1: labStart - 100, EchoT2: labStart - 50}
	return d
}

// A HELLO goes back as a HELLO_ACK that is byte for byte what the codec builds.
func TestHelloAnswer(t *testing.T) {
	l := newLab(t)
	for _, link := range links {
		for _, v6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/v6=%v", link.name, v6), func(t *testing.T) {
				l := l.with(t)
				want := hello(v6)
				want.Src, want.Dst = want.Dst, want.Src
				want.Opcode = rocev2.OpHelloAck
				want.Hello = rocev2.Hello{Node: 1, Caps: uint32(bpf.CapStamp), LinkMbps: 10_000, Nonce: helloNonce}
				want.Stamp = &rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, T1: labStart, EchoT1: labStart - 700, EchoT2: labStart}

				verdict, out := l.in(fromPeer(t, hello(v6), link.tags...))
				if answer := ethernet(peerMAC, usMAC, packet(t, want), link.tags...); verdict != xdpTX || !bytes.Equal(out, answer) {
					t.Errorf("verdict %d\n got %x\nwant %x", verdict, out, answer)
				}
				p, err := rocev2.ParseFrame(out)
				if err != nil || p.VerifyICRC() != nil {
					t.Errorf("%v, %v", err, p.VerifyICRC())
				}
				l.wantCounters("hello_answered")
				// The agent hears of the stranger; the table does not.
				if e := l.wantEvent(bpf.EventHello, peerOf(v6)); e.Node != 4 || e.Caps != 3 || e.Ns != labStart {
					t.Errorf("event %+v", e)
				}
				if n := l.entries(); n != 0 {
					t.Errorf("%d entries", n)
				}
			})
		}
	}
}

// What a stranger sends in the fields that are ours to fill does not come back.
func TestHelloAnswerIsOurs(t *testing.T) {
	l := newLab(t)
	f := fromPeer(t, hello(false))
	clean := bytes.Clone(f)
	const body = offBTH4 + rocev2.BTHLen
	binary.BigEndian.PutUint16(f[offUDP4+6:], 0xbeef) // UDP checksum
	f[body+2], f[body+30] = 0xff, 0xff                // flags, zero
	f[offIP+8] = 3                                    // TTL
	fixIPv4(f)
	p, _ := rocev2.ParseFrame(f)
	if err := p.PutICRC(); err != nil {
		t.Fatal(err)
	}
	verdict, got := l.in(f)
	_, want := l.in(clean)
	if verdict != xdpTX || !bytes.Equal(got, want) {
		t.Errorf("verdict %d\n got %x\nwant %x", verdict, got, want)
	}
}

// A HELLO from a peer in the table updates its registers, and is no news.
func TestHelloFromKnownPeer(t *testing.T) {
	l := newLab(t)
	l.know(peer4, func(d *bpf.DestRegs) { d.Caps = uint16(hello(false).Hello.Caps) })
	l.in(fromPeer(t, hello(false)))
	l.wantCounters("hello_answered")
	l.wantNoEvent()
	if r := l.regs(peer4); r.InTxNs != 700 || r.RxPackets != 0 {
		t.Errorf("%+v", r)
	}
}

// A peer that an engine was opened on says so in its HELLO. The table does not
// believe it, the agent asks; configured capabilities are not asked about.
func TestHelloWithOtherCaps(t *testing.T) {
	l := newLab(t)
	l.know(peer4, aware)
	l.in(fromPeer(t, hello(false)))
	if e := l.wantEvent(bpf.EventHello, peer4); e.Caps != hello(false).Hello.Caps || e.Nonce != 0 {
		t.Errorf("%+v", e)
	}
	if r := l.regs(peer4); r.Caps != bpf.CapStamp {
		t.Errorf("caps %#x", r.Caps)
	}
	l.know(peer4, func(d *bpf.DestRegs) { d.Caps = bpf.CapStamp | bpf.CapStatic })
	l.in(fromPeer(t, hello(false)))
	l.wantNoEvent()
	l.counters()
}

// On a veth pair the data plane leaves the answer to the agent and says what to
// return.
func TestHelloByAgent(t *testing.T) {
	l := newLab(t)
	l.config(func(c *bpf.Config) { c.HelloByAgent = 1 })
	if verdict, _ := l.in(fromPeer(t, hello(false))); verdict != xdpDrop {
		t.Errorf("verdict %d", verdict)
	}
	l.wantCounters("hello_to_agent")
	if e := l.wantEvent(bpf.EventHello, peer4); e.Nonce == 0 {
		t.Errorf("event %+v has no nonce to return", e)
	}
}

// HELLO_ACK with our nonce: the peer understands the option, lives where it says,
// and has given the idle times that the baseline starts with.
func TestHelloAck(t *testing.T) {
	l := newLab(t)
	for _, v6 := range []bool{false, true} {
		l.know(peerOf(v6))
		verdict, _ := l.in(fromPeer(t, helloAck(v6, regsNonce)))
		if verdict != xdpDrop {
			t.Errorf("verdict %d", verdict)
		}
		l.wantCounters("hello_ack")
		r := l.regs(peerOf(v6))
		if r.Caps != bpf.CapStamp|bpf.CapSACK || r.TxNs != 50 || r.RxNs != 50 || r.TurnNs != 10 || r.WinSamples != 1 || r.Queued != 1 {
			t.Errorf("%+v", r)
		}
		if e := l.wantEvent(bpf.EventPeerAware, peerOf(v6)); e.Node != 4 || e.Caps != 3 || e.Nonce != regsNonce {
			t.Errorf("event %+v", e)
		}
	}
}

// What configuration says of a peer is not changed by what it says itself.
func TestHelloAckKeepsStaticCaps(t *testing.T) {
	l := newLab(t)
	l.know(peer4, func(d *bpf.DestRegs) { d.Caps = bpf.CapStatic })
	l.in(fromPeer(t, helloAck(false, regsNonce)))
	if r := l.regs(peer4); r.Caps != bpf.CapStatic {
		t.Errorf("caps %#x", r.Caps)
	}
}

// Control packets that are dropped, leave the table as it is and get no answer.
func TestControlDrops(t *testing.T) {
	at := func(off int, v byte) func([]byte) { return func(f []byte) { f[off] = v; fixIPv4(f) } }
	const body = offBTH4 + rocev2.BTHLen
	const icrc = body + rocev2.HelloLen
	hello4 := fromPeer(t, hello(false))
	unstamped := hello(false)
	unstamped.Stamp = nil
	toGroup := hello(false)
	toGroup.Dst = netip.MustParseAddr("224.0.0.1")
	toGroup6 := hello(true)
	toGroup6.Dst = netip.MustParseAddr("ff02::1")
	credit := rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.OpCreditGrant, DestQP: rocev2.ControlQPN}
	badICRC := func(d rocev2.Datagram) []byte { return edit(fromPeer(t, d), func(f []byte) { f[body+16] ^= 0x80 }) }
	withNonce := func(d rocev2.Datagram) []byte { // a bad ICRC under the right nonce
		return edit(fromPeer(t, d), func(f []byte) { f[icrc] ^= 1 })
	}

	l := newLab(t)
	l.config(func(c *bpf.Config) { c.Mac = [6]byte{} }) // groups pass the check of the MAC address
	for _, c := range []struct {
		name  string
		frame []byte
		count string
	}{
		{"HELLO, one bit wrong", badICRC(hello(false)), "control_bad_icrc"},
		{"HELLO over IPv6, one bit wrong", edit(fromPeer(t, hello(true)), func(f []byte) { f[offUDP6+8+12+16] ^= 1 }), "control_bad_icrc"},
		{"HELLO, source address not that of the ICRC", edit(hello4, at(offIP+15, 200)), "control_bad_icrc"},
		{"HELLO_ACK with our nonce, bad ICRC", withNonce(helloAck(false, regsNonce)), "control_bad_icrc"},
		{"HELLO_ACK with another nonce", fromPeer(t, helloAck(false, regsNonce+1)), "hello_ack_forged"},
		{"HELLO_ACK with nonce 0", fromPeer(t, helloAck(false, 0)), "hello_ack_forged"},
		{"HELLO without the option", fromPeer(t, unstamped), "control_malformed"},
		{"HELLO with a broken option", edit(hello4, func(f []byte) { f[len(f)-1] ^= 1 }), "control_malformed"},
		{"HELLO of version 2", edit(hello4, at(body+1, 2)), "control_malformed"},
		{"HELLO to a group of hosts", edit(hello4, at(0, 1)), "control_malformed"},
		{"HELLO from a group of hosts", edit(hello4, at(6, 1)), "control_malformed"},
		{"HELLO to an IPv4 group", fromPeer(t, toGroup), "control_malformed"},
		{"HELLO to an IPv6 group", fromPeer(t, toGroup6), "control_malformed"},
		{"credit grant: no engine here that uses pre-credit", fromPeer(t, credit), "control_unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			l.know(peer4)
			before := l.regs(peer4)
			if verdict, _ := l.in(c.frame); verdict != xdpDrop {
				t.Errorf("verdict %d", verdict)
			}
			l.wantCounters(c.count)
			if after := l.regs(peer4); after != before {
				t.Errorf("the entry changed: %+v", after)
			}
			l.wantNoEvent()
		})
	}
}

// Our opcodes to a queue pair belong to the engine, and ordinary opcodes to the
// control QPN to whoever owns it.
func TestNotControl(t *testing.T) {
	l := newLab(t)
	toQP := rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.OpSACK, DestQP: 17, PSN: 4}
	other := write(64)
	other.DestQP = rocev2.ControlQPN
	for _, d := range []rocev2.Datagram{toQP, other} {
		if verdict, _ := l.in(fromPeer(t, d)); verdict != xdpPass {
			t.Errorf("%s to QP %#x: verdict %d", d.Opcode, d.DestQP, verdict)
		}
	}
	l.wantCounters("rx_unstamped", "rx_unstamped")
}

// A flood of HELLOs gets a bounded number of answers, then one every 1/rate.
func TestHelloRateLimit(t *testing.T) {
	const rate, burst = 100, 65
	l := newLab(t)
	l.config(func(c *bpf.Config) { c.HelloRate = rate })
	f := fromPeer(t, hello(false))
	answers := func(n int) (got int) {
		for range n {
			if verdict, _ := l.in(f); verdict == xdpTX {
				got++
			}
		}
		return got
	}
	oneCPU(t) // the limit is one a CPU
	if n := answers(500); n != burst {
		t.Errorf("%d answers at once, want %d", n, burst)
	}
	if c := l.counters(); c["hello_answered"] != burst || c["hello_limited"] != 500-burst {
		t.Error(c)
	}
	l.at(labStart + 1e9/rate*10)
	if n := answers(500); n != 10 {
		t.Errorf("%d answers after 10 intervals", n)
	}
	// HELLO_ACKs from strangers draw on the same budget: they cost the agent an event.
	l.in(fromPeer(t, helloAck(true, 1)))
	if c := l.counters(); c["hello_ack"] != 0 || c["hello_limited"] != 491 {
		t.Error(c)
	}
	l.at(labStart + 1e9)
	for ok := true; ok; _, ok = l.event() {
	}
	l.in(fromPeer(t, helloAck(true, 1)))
	l.wantEvent(bpf.EventAckUnknown, peer6)
	l.config(func(c *bpf.Config) { c.HelloRate = 0 })
	if n := answers(1); n != 0 {
		t.Error("answered though the rate is 0")
	}
}

// The agent's own HELLO leaves with the time of its departure, everything else in
// it unchanged.
func TestHelloEgress(t *testing.T) {
	l := newLab(t)
	for _, v6 := range []bool{false, true} {
		src, dst := us4, peer4
		if v6 {
			src, dst = us6, peer6
		}
		b := make([]byte, rocev2.MaxHelloLen)
		n, err := rocev2.BuildHello(b, src, dst, rocev2.Hello{Node: 1, Caps: 1, Nonce: 42})
		if err != nil {
			t.Fatal(err)
		}
		f := ethernet(peerMAC, usMAC, b[:n])
		want := bytes.Clone(f)
		s := rocev2.Stamp{Flags: rocev2.StampT1, T1: labStart}
		s.Put(want[len(want)-rocev2.StampLen:])
		if verdict, out := l.out(f); verdict != tcNext || !bytes.Equal(out, want) {
			t.Errorf("verdict %d\n got %x\nwant %x", verdict, out, want)
		}
	}
	l.wantCounters()
	if n := l.entries(); n != 0 {
		t.Errorf("%d entries", n)
	}
}
