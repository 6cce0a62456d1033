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

const helloNonce = 0xfeedfacecafe

func hello(v6 bool) rocev2.Datagram {
	d := rocev2.Datagram{Src: peer4, Dst: us4, IPID: 99, SrcPort: 0xC123, Opcode: rocev2.OpHello, DestQP: rocev2.ControlQPN,
		Hello: rocev2.Hello{Node: 4, Caps: 0x3, LinkMbps: 25000, Nonce: helloNonce},
		Stamp: &rocev2.Stamp{Flags: rocev2.StampT1, T1: labStart - 700}}
	if v6 {
		d = over6(d)
	}
	return d
}

// labRoom is the longest packet that the interface stamps, with its MTU of 1500.
const labRoom = 1500 - rocev2.StampLen

// The token of HELLO_ACKs to this host.
const ackToken = 0xa0a1a2a3a4a5a6a7

// helloAck is a HELLO_ACK with the right nonce plus n.
func helloAck(v6 bool, off uint64) rocev2.Datagram {
	d := hello(v6)
	d.Opcode, d.Hello.Nonce, d.Hello.Token = rocev2.OpHelloAck, nonceOf(peerOf(v6))+off, ackToken
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
				want.Hello = rocev2.Hello{Node: 1, Caps: uint32(bpf.CapStamp), LinkMbps: 10_000, Nonce: helloNonce, Token: tokenOf(peerOf(v6))}
				want.Stamp = &rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, T1: labStart, EchoT1: labStart - 700, EchoT2: labStart, Credit: labRoom}

				verdict, out := l.in(fromPeer(t, hello(v6), link.tags...))
				if answer := ethernet(peerMAC, usMAC, packet(t, want)); verdict != xdpTX || !bytes.Equal(out, answer) {
					t.Errorf("verdict %d\n got %x\nwant %x", verdict, out, answer)
				}
				p, err := rocev2.ParseFrame(out)
				if err != nil || p.VerifyICRC() != nil {
					t.Errorf("%v, %v", err, p.VerifyICRC())
				}
				l.wantCounters("hello_answered")
				// No event before the peer has proved that it receives at that address.
				l.wantNoEvent()
				l.in(fromPeer(t, withToken(hello(v6)), link.tags...))
				if e := l.wantEvent(bpf.EventHello, peerOf(v6)); e.Node != 4 || e.Caps != 3 || e.Ns != labStart || e.Proven != 1 {
					t.Errorf("event %+v", e)
				}
				l.wantCounters("hello_answered")
				if n := l.entries(); n != 0 {
					t.Errorf("%d entries", n)
				}
			})
		}
	}
}

// Fields of the HELLO that the answer defines are not copied from it.
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

// withToken puts the right token into the stamp of a control packet.
func withToken(d rocev2.Datagram) rocev2.Datagram { return stamped(d, *d.Stamp) }

// A HELLO from a peer in the table writes nothing there, as it may be forged. With the right
// token and unchanged capabilities there is no event either.
func TestHelloFromKnownPeer(t *testing.T) {
	l := newLab(t)
	l.know(peer4, func(d *bpf.DestRegs) { d.Caps = uint16(hello(false).Hello.Caps) })
	before := l.regs(peer4)
	full := rocev2.Stamp{Flags: 15, T1: labStart - 700, EchoT1: labStart - 100, EchoT2: 5, Credit: 1, CreditSeq: 1}
	l.in(fromPeer(t, stamped(hello(false), full)))
	l.wantCounters("hello_answered")
	l.wantNoEvent()
	l.in(fromPeer(t, stamped(hello(false), full, 0)))
	l.wantCounters("hello_answered")
	if e := l.wantEvent(bpf.EventHello, peer4); e.Proven != 0 {
		t.Errorf("a peer that does not know our token was attached anew: %+v", e)
	}
	if r := l.regs(peer4); r != before {
		t.Errorf("%+v", r)
	}
}

// A HELLO announces that an engine was opened at the peer. The table is not changed, and the
// agent sends a HELLO; for configured capabilities it sends none.
func TestHelloWithOtherCaps(t *testing.T) {
	l := newLab(t)
	l.know(peer4, aware)
	l.in(fromPeer(t, withToken(hello(false))))
	if e := l.wantEvent(bpf.EventHello, peer4); e.Caps != hello(false).Hello.Caps || e.Nonce != 0 {
		t.Errorf("%+v", e)
	}
	if r := l.regs(peer4); r.Caps != bpf.CapStamp {
		t.Errorf("caps %#x", r.Caps)
	}
	l.know(peer4, func(d *bpf.DestRegs) { d.Caps = bpf.CapStamp | bpf.CapStatic })
	l.in(fromPeer(t, withToken(hello(false))))
	l.wantNoEvent()
	l.counters()
}

// On a veth pair the agent sends the answer; the event contains what to return.
func TestHelloByAgent(t *testing.T) {
	l := newLab(t)
	l.config(func(c *bpf.Config) { c.HelloByAgent = 1 })
	if verdict, _ := l.in(fromPeer(t, hello(false))); verdict != xdpDrop {
		t.Errorf("verdict %d", verdict)
	}
	l.wantCounters("hello_to_agent")
	if e := l.wantEvent(bpf.EventHello, peer4); e.Nonce != helloNonce || e.T1Ns != labStart-700 || e.Ns != labStart {
		t.Errorf("event %+v: want nonce and times of the HELLO, to return", e)
	}
}

// HELLO_ACK with the right nonce: the peer understands the option, receives at its address,
// and its times are the first sample of the base delay.
func TestHelloAck(t *testing.T) {
	l := newLab(t)
	for _, v6 := range []bool{false, true} {
		l.know(peerOf(v6))
		verdict, _ := l.in(fromPeer(t, helloAck(v6, 0)))
		if verdict != xdpDrop {
			t.Errorf("verdict %d", verdict)
		}
		l.wantCounters("hello_ack")
		r := l.regs(peerOf(v6))
		if r.Caps != bpf.CapStamp|bpf.CapSACK || r.TxNs != 50 || r.RxNs != 50 || r.TurnaroundNs != 10 || r.WinSamples != 1 || r.Queued != 1 || r.TxToken != ackToken {
			t.Errorf("%+v", r)
		}
		if e := l.wantEvent(bpf.EventPeerAware, peerOf(v6)); e.Node != 4 || e.Caps != 3 || e.Token != ackToken {
			t.Errorf("event %+v", e)
		}
	}
}

// Configured capabilities of a peer are not changed by its HELLO_ACK.
func TestHelloAckKeepsStaticCaps(t *testing.T) {
	l := newLab(t)
	l.know(peer4, func(d *bpf.DestRegs) { d.Caps = bpf.CapStatic })
	l.in(fromPeer(t, helloAck(false, 0)))
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
		{"HELLO_ACK with our nonce, bad ICRC", withNonce(helloAck(false, 0)), "control_bad_icrc"},
		{"HELLO_ACK with another nonce", fromPeer(t, helloAck(false, 1)), "hello_ack_forged"},
		{"HELLO_ACK with nonce 0", fromPeer(t, helloAck(false, -nonceOf(peer4))), "hello_ack_forged"},
		{"HELLO without the option", fromPeer(t, unstamped), "control_malformed"},
		{"HELLO with a broken option", edit(hello4, func(f []byte) { f[len(f)-1] ^= 1 }), "control_malformed"},
		{"HELLO of version 1", edit(hello4, at(body+1, 1)), "control_malformed"},
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

// Opcodes of this project to a queue pair belong to the engine, and ordinary opcodes to the
// control QPN to the owner of that QPN.
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
	// HELLO_ACKs get no answer. From an address without an entry, only one with the right nonce
	// makes an event.
	l.wantNoEvent()
	l.in(fromPeer(t, helloAck(true, 1)))
	l.wantNoEvent()
	l.in(fromPeer(t, helloAck(true, 0)))
	if e := l.wantEvent(bpf.EventAckUnknown, peer6); e.Token != ackToken {
		t.Errorf("%+v", e)
	}
	if c := l.counters(); c["hello_ack"] != 1 || c["hello_ack_forged"] != 1 || l.entries() != 0 {
		t.Error(c)
	}
	l.at(labStart + 1e9)
	l.config(func(c *bpf.Config) { c.HelloRate = 0 })
	if n := answers(1); n != 0 {
		t.Error("answered though the rate is 0")
	}
}

// The agent's own control packets leave with the time of their departure and the token
// that the peer has given; a HELLO_ACK with the echo that the agent has put in. Everything
// else in them stays.
func TestControlEgress(t *testing.T) {
	l := newLab(t)
	l.know(peer4, func(d *bpf.DestRegs) {
		d.TxToken, d.CePending, d.PeerT1Ns, d.InTxNs = 77, 1, labStart-9, 4
		d.EchoGuard = ^(d.PeerT1Ns ^ uint64(d.InTxNs))
	})
	before := l.regs(peer4)
	echo := rocev2.Stamp{Flags: rocev2.StampEcho, EchoT1: 1 << 40, EchoT2: 7}
	for _, v6 := range []bool{false, true} {
		src, dst, token := us4, peer4, uint64(77)
		if v6 {
			src, dst, token = us6, peer6, 0
		}
		ask, answer := make([]byte, rocev2.MaxHelloLen), make([]byte, rocev2.MaxHelloLen)
		n, err1 := rocev2.BuildHello(ask, src, dst, rocev2.Hello{Node: 1, Caps: 1, Nonce: 42})
		m, err2 := rocev2.BuildHelloAck(answer, src, dst, rocev2.Hello{Node: 1, Caps: 1, Nonce: 42, Token: 9}, echo)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		for _, c := range []struct {
			packet []byte
			want   rocev2.Stamp
		}{
			{ask[:n], rocev2.Stamp{Flags: rocev2.StampT1, Token: token, T1: labStart}},
			{answer[:m], rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, Token: token, T1: labStart, EchoT1: 1 << 40, EchoT2: 7, Credit: labRoom}},
		} {
			f := ethernet(peerMAC, usMAC, c.packet)
			want := bytes.Clone(f)
			c.want.Put(want[len(want)-rocev2.StampLen:])
			if verdict, out := l.out(f); verdict != tcNext || !bytes.Equal(out, want) {
				t.Errorf("verdict %d\n got %x\nwant %x", verdict, out, want)
			}
		}
	}
	l.wantCounters()
	if n := l.entries(); n != 1 || l.regs(peer4) != before {
		t.Errorf("%d entries, %+v", n, l.regs(peer4))
	}
}
