// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
)

var someStamp = rocev2.Stamp{Flags: rocev2.StampT1, T1: 999_999_000}

// For every link and IP version the option and the priority tag are removed, and the rest is byte for
// byte the packet before it was stamped.
func TestIngressStripsTheOption(t *testing.T) {
	l := newLab(t)
	packets := []struct {
		name string
		d    rocev2.Datagram
	}{
		{"WRITE of 64 bytes", write(64)},
		{"WRITE of 1 byte and 3 of pad", write(1)},
		{"WRITE of 1024 bytes", write(1024)},
		{"ACK", ack(5)},
		{"UD SEND", rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.UDSendOnly, DestQP: 1, QKey: 0x80010000, SrcQP: 1, Payload: make([]byte, 256)}},
	}
	for _, link := range links {
		for _, v6 := range []bool{false, true} {
			for _, p := range packets {
				t.Run(fmt.Sprintf("%s/v6=%v/%s", link.name, v6, p.name), func(t *testing.T) {
					d := p.d
					if v6 {
						d = over6(d)
					}
					plain := fromPeer(t, d)
					verdict, out := l.in(fromPeer(t, stamped(d, someStamp), link.tags...))
					if verdict != xdpPass || !bytes.Equal(out, plain) {
						t.Errorf("verdict %d\n got %x\nwant %x", verdict, out, plain)
					}
					l.wantCounters("rx_stamped", "rx_unknown_peer")

					verdict, out = l.in(fromPeer(t, d, link.tags...))
					if verdict != xdpPass || !bytes.Equal(out, plain) {
						t.Errorf("unstamped: verdict %d\n got %x\nwant %x", verdict, out, plain)
					}
					l.wantCounters("rx_unstamped")
				})
			}
		}
	}
}

// A packet with a wrong token counts as one without an option: the agent takes the difference
// of the two registers for the number of stamps received (loader/agent/echo.go).
func TestIngressTokenWrong(t *testing.T) {
	l := newLab(t)
	l.know(peer4, aware)
	write := rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.RCWriteOnly, DestQP: 17, Payload: make([]byte, 64)}
	for _, token := range []uint64{0, 1} {
		before := l.regs(peer4)
		l.in(fromPeer(t, stamped(write, someStamp, token)))
		l.wantCounters("rx_token_wrong")
		if d := l.regs(peer4); d.RxPackets != before.RxPackets+1 || d.RxUnstamped != before.RxUnstamped+1 || d.RxNs != before.RxNs {
			t.Errorf("token %d: %+v", token, d)
		}
	}
}

// Ethernet padding behind the datagram goes with the option.
func TestIngressPaddingBehindTheOption(t *testing.T) {
	l := newLab(t)
	plain := fromPeer(t, ack(5))
	_, out := l.in(append(fromPeer(t, stamped(ack(5), someStamp)), 1, 2, 3, 4, 5))
	if !bytes.Equal(out, plain) {
		t.Errorf(" got %x\nwant %x", out, plain)
	}
	// And padding behind an unstamped packet is left alone.
	padded := append(plain, 1, 2, 3)
	if _, out := l.in(padded); !bytes.Equal(out, padded) {
		t.Errorf(" got %x\nwant %x", out, padded)
	}
	l.wantCounters("rx_stamped", "rx_unknown_peer", "rx_unstamped")
}

// Packets that ingress does not support pass unchanged and are counted once.
func TestIngressPassesUntouched(t *testing.T) {
	plain4, plain6 := fromPeer(t, write(64)), fromPeer(t, over6(write(64)))
	stamp4 := fromPeer(t, stamped(write(64), someStamp))
	udpEnd4 := len(plain4)
	put16 := func(at int, v uint16) func([]byte) {
		return func(f []byte) { binary.BigEndian.PutUint16(f[at:], v); fixIPv4(f) }
	}
	put8 := func(at int, v byte) func([]byte) {
		return func(f []byte) { f[at] = v; fixIPv4(f) }
	}
	surplus := func(n int) []byte { // a packet with n bytes of something behind it
		f := append(slices.Clone(plain4), make([]byte, n)...)
		addToIPLength(f, n)
		return f
	}
	withOptions := func() []byte { // four bytes of IPv4 options
		f := slices.Insert(slices.Clone(plain4), offUDP4, 1, 1, 1, 0)
		f[offIP] = 0x46
		addToIPLength(f, 4)
		return f
	}()

	l := newLab(t)
	for _, c := range []struct {
		name  string
		frame []byte
		count string // "" = not RoCEv2, not counted
	}{
		{"first fragment", edit(stamp4, put16(offIP+6, 0x2000)), "rx_fragment"},
		{"last fragment", edit(stamp4, put16(offIP+6, 0x0010)), "rx_fragment"},
		{"reserved fragment bit set: no fragment", edit(plain4, put16(offIP+6, 0x8000)), "rx_unstamped"},
		{"IPv4 options", withOptions, "rx_ip_options"},
		{"IPv4 options of another port", edit(withOptions, put16(offUDP4+4+2, 53)), ""},
		{"IPv4 header length 16", edit(plain4, func(f []byte) { f[offIP] = 0x44 }), ""},
		{"IPv4 version 5", edit(plain4, put8(offIP, 0x55)), ""},
		{"IPv6 version 5", edit(plain6, func(f []byte) { f[offIP] = 0x50 }), ""},
		{"IPv6 hop-by-hop header", edit(plain6, func(f []byte) { f[offIP+6] = 0 }), ""},
		{"frame ends inside the ICRC", plain4[:len(plain4)-2], "rx_truncated"},
		{"frame ends inside the option", stamp4[:len(stamp4)-1], "rx_truncated"},
		{"frame ends inside the BTH", plain4[:offBTH4+8], "rx_truncated"},
		{"frame ends inside the UDP header", plain4[:offUDP4+6], ""},
		{"frame ends inside the IPv4 header", plain4[:offIP+10], ""},
		{"frame ends inside the VLAN tag", fromPeer(t, write(64), 0x8100)[:16], ""},
		{"frame ends inside the second VLAN tag", fromPeer(t, write(64), 0x8100, 0x8100)[:20], ""},
		{"priority tag, to another MAC address", edit(fromPeer(t, write(64), priorityTag), func(f []byte) { f[5] = 9 }), ""},
		{"UDP length below BTH and ICRC", edit(plain4, put16(offUDP4+4, 20)), "rx_bad_length"},
		{"UDP length 0", edit(plain4, put16(offUDP4+4, 0)), "rx_bad_length"},
		{"UDP length above the IP length", edit(plain4, put16(offUDP4+4, uint16(len(plain4)))), "rx_bad_length"},
		{"UDP length odd", edit(stamp4, put16(offUDP4+4, binary.BigEndian.Uint16(stamp4[offUDP4+4:])-1)), "rx_bad_length"},
		{"IP length 0", edit(plain4, put16(offIP+2, 0)), "rx_bad_length"},
		{"IPv6 payload length 0 (jumbogram)", edit(plain6, func(f []byte) { f[offIP+4], f[offIP+5] = 0, 0 }), "rx_bad_length"},
		{"surplus of 4 bytes", surplus(4), "rx_option_foreign"},
		{"surplus of 40 zero bytes", surplus(40), "rx_option_foreign"},
		{"surplus of 41 bytes: a pad byte and 40", surplus(41), "rx_option_foreign"},
		{"another kind", edit(stamp4, put8(udpEnd4+2, 126)), "rx_option_foreign"},
		{"another ExID", edit(stamp4, put8(udpEnd4+5, 0x53)), "rx_option_foreign"},
		{"another length", edit(stamp4, put8(udpEnd4+3, 37)), "rx_option_foreign"},
		{"option with a flipped bit", edit(stamp4, func(f []byte) { f[udpEnd4+15] ^= 1 }), "rx_option_checksum"},
		{"OCS zero though the UDP checksum is not", edit(stamp4, func(f []byte) {
			f[udpEnd4], f[udpEnd4+1] = 0, 0
			f[offUDP4+6] = 1
		}), "rx_option_checksum"},
		{"to another MAC address", edit(stamp4, put8(5, 9)), "rx_other_host"},
		{"to a group", edit(stamp4, put8(0, 1)), "rx_other_host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			verdict, out := l.in(c.frame)
			if verdict != xdpPass || !bytes.Equal(out, c.frame) {
				t.Errorf("verdict %d\n got %x\nwant %x", verdict, out, c.frame)
			}
			if c.count == "" {
				l.wantCounters()
			} else {
				l.wantCounters(c.count)
			}
		})
	}
}

// RFC 9868 lets a sender without a UDP checksum leave the option checksum out.
func TestIngressAcceptsUnusedOCS(t *testing.T) {
	l := newLab(t)
	plain := fromPeer(t, write(64))
	f := fromPeer(t, stamped(write(64), someStamp))
	f[len(plain)], f[len(plain)+1] = 0, 0
	if _, out := l.in(f); !bytes.Equal(out, plain) {
		t.Errorf(" got %x\nwant %x", out, plain)
	}
	l.wantCounters("rx_stamped", "rx_unknown_peer")
}

// For stamped data of a host without an entry the agent sends a HELLO, if the token proves
// that the host receives at its address, and not for each packet.
func TestIngressUnknownPeerIsAsked(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		l := newLab(t)
		d := write(64)
		if v6 {
			d = over6(d)
		}
		l.in(fromPeer(t, stamped(d, someStamp, 1)))
		l.wantNoEvent()
		f := fromPeer(t, stamped(d, someStamp))
		for range 1000 {
			l.in(f)
		}
		if e := l.wantEvent(bpf.EventHello, peerOf(v6)); e.Proven != 1 || e.Nonce != 0 {
			t.Errorf("%+v", e)
		}
		more := 0
		for _, ok := l.event(); ok; _, ok = l.event() {
			more++
		}
		if more > 65*runtime.NumCPU() || l.entries() != 0 { // a bucket each
			t.Errorf("%d more events for 1000 packets, %d entries", more, l.entries())
		}
	}
}

// An option of a later version is removed, but not read.
func TestIngressOtherVersion(t *testing.T) {
	l := newLab(t)
	l.know(peer4)
	plain := fromPeer(t, write(64))
	f := fromPeer(t, stamped(write(64), someStamp))
	opt := f[len(plain):]
	opt[7] = 3
	// One more in the sum: one less in the checksum.
	binary.BigEndian.PutUint16(opt, binary.BigEndian.Uint16(opt)-1)
	if _, out := l.in(f); !bytes.Equal(out, plain) {
		t.Errorf(" got %x\nwant %x", out, plain)
	}
	l.wantCounters("rx_option_version")
	if d := l.regs(peer4); d.PeerT1Ns != 0 || d.RxUnstamped != 1 || d.RxPackets != 1 {
		t.Errorf("%+v", d)
	}
}

// A host whose own MAC address is not configured takes frames to any.
func TestIngressAnyMAC(t *testing.T) {
	l := newLab(t)
	l.config(func(c *bpf.Config) { c.Mac = [6]byte{} })
	f := edit(fromPeer(t, stamped(write(64), someStamp)), func(f []byte) { f[5] = 9 })
	if _, out := l.in(f); len(out) != len(f)-rocev2.StampLen {
		t.Errorf("%d bytes", len(out))
	}
	l.wantCounters("rx_stamped", "rx_unknown_peer")
}

// A frame too large for one buffer: the option lies in a fragment of the XDP
// buffer, not in what the program can address. It is read, and stays where it is
// as padding behind the IP datagram.
func TestIngressMultiBuffer(t *testing.T) {
	l := newLab(t)
	const beyond = 30000 // nobody's MTU, and more than the programs look at
	for _, n := range []int{2000, 3400, 3436, 3440, 4096, 8192, 8900, 16000, beyond} {
		for _, v6 := range []bool{false, true} {
			d := write(n)
			if v6 {
				d = over6(d)
			}
			want, count := fromPeer(t, d), []string{"rx_stamped", "rx_unknown_peer"}
			in := fromPeer(t, stamped(d, someStamp))
			if n == beyond {
				want, count = in, []string{"rx_option_foreign"}
			}
			const oneBuffer = 4096 - 256 - 320 // a page less headroom and skb_shared_info
			if len(in) > oneBuffer && n != beyond {
				want = append(want, in[len(in)-rocev2.StampLen:]...)
			}
			if _, out := l.in(in); !bytes.Equal(out, want) {
				t.Errorf("%d bytes of payload, v6=%v: %d bytes came out, want %d", n, v6, len(out), len(want))
			}
			l.wantCounters(count...)
		}
	}
}

// What one packet of each kind writes into its peer's registers.
func TestIngressRegisters(t *testing.T) {
	const now = 1_000_000_000
	nak := func(s rocev2.Syndrome) rocev2.Datagram { d := ack(100); d.Syndrome = s; return d }
	sends := func(d *bpf.DestRegs) { d.LastTxNs, d.Flows[2] = now-5, bpf.SoftroceSrFlow{Psn: 100, Qpn: 18} }
	l := newLab(t)
	for _, c := range []struct {
		name   string
		peer   func(*bpf.DestRegs)
		d      rocev2.Datagram
		counts []string
		active bool // expected presence of the destination on the agent's list afterwards
		want   func(bpf.DestRegs) bool
	}{
		{"data: S1.3", nil, stamped(write(64), rocev2.Stamp{Flags: rocev2.StampT1, T1: now - 5}), []string{"rx_stamped"}, true,
			func(d bpf.DestRegs) bool {
				return d.InTxNs == 5 && d.PeerT1Ns == now-5 && d.EchoGuard == ^(d.PeerT1Ns^uint64(d.InTxNs)) && d.LastRxNs == now &&
					d.RxPackets == 1 && d.RxBytes == uint64(len(packet(t, write(64)))) && d.RxUnstamped == 0
			}},
		{"a peer whose clock is ahead: negative time", nil, stamped(write(64), rocev2.Stamp{Flags: rocev2.StampT1, T1: now + 5}), []string{"rx_stamped"}, true,
			func(d bpf.DestRegs) bool { return d.InTxNs == -5 }},
		{"unstamped data", nil, write(64), []string{"rx_unstamped"}, false,
			func(d bpf.DestRegs) bool {
				return d.InTxNs == 0 && d.EchoGuard == 0 && d.RxUnstamped == 1 && d.RxPackets == 1
			}},
		{"ACK with echo: S1.4", nil, stamped(ack(100), rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, T1: 504, EchoT1: now - 30, EchoT2: 500}),
			[]string{"rx_stamped"}, true,
			func(d bpf.DestRegs) bool {
				return d.TxNs == 500-(now-30) && d.RxNs == now-500 && d.WinTxNs == d.TxNs && d.WinRxNs == d.RxNs && d.WinSamples == 1 && d.TurnaroundNs == 4
			}},
		{"echo that is larger than the window's minimum", func(d *bpf.DestRegs) { d.WinTxNs, d.WinRxNs, d.WinSamples = 1, 1, 3 },
			stamped(ack(100), rocev2.Stamp{Flags: rocev2.StampEcho, EchoT1: now - 30, EchoT2: now - 20}), []string{"rx_stamped"}, true,
			func(d bpf.DestRegs) bool {
				return d.TxNs == 10 && d.RxNs == 20 && d.WinTxNs == 1 && d.WinRxNs == 1 && d.WinSamples == 4
			}},
		{"echo of a packet of the last rate", func(d *bpf.DestRegs) { d.ValidAfterNs = now - 29 },
			stamped(ack(100), rocev2.Stamp{Flags: rocev2.StampEcho, EchoT1: now - 30, EchoT2: now - 20}), []string{"rx_stamped", "rx_echo_stale"}, true,
			func(d bpf.DestRegs) bool {
				return d.TxNs == 10 && d.RxNs == 20 && d.WinTxNs == bpf.NoSample && d.WinSamples == 0
			}},
		{"echo that came before: told once", func(d *bpf.DestRegs) { d.LastEchoT1Ns, d.RxNs = now-30, 77 },
			stamped(ack(100), rocev2.Stamp{Flags: rocev2.StampEcho, EchoT1: now - 30, EchoT2: now - 20}), []string{"rx_stamped"}, true,
			func(d bpf.DestRegs) bool { return d.RxNs == 77 && d.WinSamples == 0 && d.LastEchoT1Ns == now-30 }},
		{"echo that was overtaken", func(d *bpf.DestRegs) { d.LastEchoT1Ns, d.RxNs = now-29, 77 },
			stamped(ack(100), rocev2.Stamp{Flags: rocev2.StampEcho, EchoT1: now - 30, EchoT2: now - 20}), []string{"rx_stamped"}, true,
			func(d bpf.DestRegs) bool { return d.RxNs == 77 && d.WinSamples == 0 && d.LastEchoT1Ns == now-29 }},
		{"echo of a packet that has not left", nil,
			stamped(ack(100), rocev2.Stamp{Flags: rocev2.StampEcho, EchoT1: now + 1, EchoT2: 500}), []string{"rx_stamped", "rx_echo_absurd"}, true,
			func(d bpf.DestRegs) bool {
				return d.TxNs == 0 && d.RxNs == 0 && d.WinSamples == 0 && d.LastEchoT1Ns == 0
			}},
		{"loss under the last rate", func(d *bpf.DestRegs) { aware(d); d.ValidAfterNs = now - 10; d.LastEchoT1Ns = now - 11 },
			stamped(nak(0x60), rocev2.Stamp{Flags: rocev2.StampT1, T1: now - 5}), []string{"rx_stamped"}, true,
			func(d bpf.DestRegs) bool { return d.Naks == 1 && d.WinLoss == 0 }},
		{"loss under the rate in force", func(d *bpf.DestRegs) { aware(d); d.ValidAfterNs = now - 10; d.LastEchoT1Ns = now - 10 },
			stamped(nak(0x60), rocev2.Stamp{Flags: rocev2.StampT1, T1: now - 5}), []string{"rx_stamped"}, true,
			func(d bpf.DestRegs) bool { return d.Naks == 1 && d.WinLoss == 1 }},
		{"credit", nil, stamped(ack(100), rocev2.Stamp{Flags: rocev2.StampCredit, Credit: 4096, CreditSeq: 9}), []string{"rx_stamped"}, false,
			func(d bpf.DestRegs) bool { return d.Credit == 4096 && d.CreditSeq == 9 }},
		{"no credit flag, no credit", nil, stamped(ack(100), rocev2.Stamp{Credit: 4096, CreditSeq: 9}), []string{"rx_stamped"}, false,
			func(d bpf.DestRegs) bool { return d.Credit == 0 && d.CreditSeq == 0 }},
		{"CE on the forward path", nil, func() rocev2.Datagram { d := write(64); d.TOS = 3; return d }(), []string{"rx_unstamped"}, false,
			func(d bpf.DestRegs) bool { return d.Ces == 1 && d.CePending == 1 && d.WinCe == 0 }},
		{"ECT(0) is no CE", nil, func() rocev2.Datagram { d := write(64); d.TOS = 2; return d }(), []string{"rx_unstamped"}, false,
			func(d bpf.DestRegs) bool { return d.Ces == 0 && d.CePending == 0 }},
		{"CE that the peer saw", nil, stamped(ack(100), rocev2.Stamp{Flags: rocev2.StampCE}), []string{"rx_stamped"}, true,
			func(d bpf.DestRegs) bool { return d.WinCe == 1 && d.Ces == 0 }},
		{"CNP", sends, rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.CNP, DestQP: 17}, []string{"rx_cnp", "rx_unstamped"}, true,
			func(d bpf.DestRegs) bool { return d.Cnps == 1 && d.WinCe == 1 }},
		{"NAK, PSN sequence error", sends, nak(0x60), []string{"rx_unstamped"}, true,
			func(d bpf.DestRegs) bool { return d.Naks == 1 && d.WinLoss == 1 }},
		{"NAK, remote access error: no loss", sends, nak(0x62), []string{"rx_unstamped"}, true,
			func(d bpf.DestRegs) bool { return d.Naks == 1 && d.WinLoss == 0 }},
		{"RNR NAK", sends, nak(0x2e), []string{"rx_unstamped"}, true,
			func(d bpf.DestRegs) bool { return d.Rnrs == 1 && d.WinRnr == 1 && d.Naks == 0 && d.WinLoss == 0 }},
		{"plain ACK", nil, ack(100), []string{"rx_unstamped"}, false,
			func(d bpf.DestRegs) bool { return d.Naks == 0 && d.Rnrs == 0 && d.RttNs == 0 }},
		{"ACK of the probed PSN", func(d *bpf.DestRegs) { d.ProbePsn, d.ProbeNs = 100, now-250 }, ack(100), []string{"rx_unstamped"}, true,
			func(d bpf.DestRegs) bool { return d.RttNs == 250 && d.WinRttNs == 250 && d.ProbeNs == 0 }},
		{"ACK of another PSN", func(d *bpf.DestRegs) { d.ProbePsn, d.ProbeNs = 101, now-250 }, ack(100), []string{"rx_unstamped"}, false,
			func(d bpf.DestRegs) bool { return d.RttNs == 0 && d.ProbeNs == now-250 }},
		{"probe of the last rate", func(d *bpf.DestRegs) { d.ProbePsn, d.ProbeNs, d.ValidAfterNs = 100, now-250, now-249 }, ack(100), []string{"rx_unstamped"}, true,
			func(d bpf.DestRegs) bool { return d.RttNs == 250 && d.WinRttNs == bpf.NoSample }},
		{"probe that should not have left yet", func(d *bpf.DestRegs) { d.ProbePsn, d.ProbeNs = 100, now+250 }, ack(100), []string{"rx_unstamped"}, true,
			func(d bpf.DestRegs) bool { return d.RttNs == 0 && d.WinRttNs == bpf.NoSample && d.ProbeNs == 0 }},
		{"READ response ends a probe", func(d *bpf.DestRegs) { d.ProbePsn, d.ProbeNs = 100, now-250 },
			rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.RCReadResponseFirst, PSN: 100, Payload: make([]byte, 64)}, []string{"rx_unstamped"}, true,
			func(d bpf.DestRegs) bool { return d.RttNs == 250 }},
		{"READ response middle does not", func(d *bpf.DestRegs) { d.ProbePsn, d.ProbeNs = 100, now-250 },
			rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.RCReadResponseMiddle, PSN: 100, Payload: make([]byte, 64)}, []string{"rx_unstamped"}, false,
			func(d bpf.DestRegs) bool { return d.RttNs == 0 }},
		{"atomic ACK ends a probe", func(d *bpf.DestRegs) { d.ProbePsn, d.ProbeNs = 100, now-250 },
			rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.RCAtomicAck, PSN: 100}, []string{"rx_unstamped"}, true,
			func(d bpf.DestRegs) bool { return d.RttNs == 250 }},
		{"bad option: counted as unstamped", nil, func() rocev2.Datagram { return stamped(write(64), someStamp) }(), []string{"rx_option_checksum"}, false,
			func(d bpf.DestRegs) bool { return d.RxUnstamped == 1 && d.PeerT1Ns == 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			l.at(now)
			l.know(peer4, func(d *bpf.DestRegs) {
				if c.peer != nil {
					c.peer(d)
				}
			})
			frame := fromPeer(t, c.d)
			if c.counts[0] == "rx_option_checksum" {
				frame[len(frame)-1] ^= 1
			}
			if verdict, _ := l.in(frame); verdict != xdpPass {
				t.Errorf("verdict %d", verdict)
			}
			l.wantCounters(c.counts...)
			if after := l.regs(peer4); !c.want(after) {
				t.Errorf("%+v", after)
			}
			var k bpf.DestKey
			err := l.objs.Active.LookupAndDelete(nil, &k)
			if active := err == nil; active != c.active || active && k != bpf.KeyOf(peer4) {
				t.Errorf("on the agent's list: %v (%v), want %v", active, err, c.active)
			}
			l.wantNoEvent()
		})
	}
}

// Times in the option are modulo 2^48: 78 hours. The round trip is exact whatever the
// clocks say, and where their difference passes 2^47, the transmit time goes on steadily.
func TestIngressTimesWrap(t *testing.T) {
	const wrap = 1 << 48
	l := newLab(t)
	for _, c := range []struct {
		name   string
		now    uint64
		offset int64 // offset of the peer's clock
		txWas  int64
	}{
		{"our clock has just wrapped", 3*wrap + 10, 0, 0},
		{"the peer's has", 1_000_000, wrap - 999_990, 0},
		{"the peer runs for a week longer", 1_000_000, 604_800_000_000_000, 0},
		{"the difference grows past the middle", 1_000_000, wrap/2 + 5, wrap/2 - 1},
		{"it shrinks past it", 1_000_000, -wrap/2 - 5, -wrap/2 + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			l.at(c.now)
			l.know(peer4, aware, func(d *bpf.DestRegs) { d.TxNs = c.txWas })
			peer := uint64(int64(c.now) + c.offset)
			l.in(fromPeer(t, stamped(ack(100), rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, T1: peer - 10, EchoT1: c.now - 30, EchoT2: peer - 15})))
			d := l.regs(peer4)
			if d.TxNs+d.RxNs != 30 || d.LastEchoT1Ns != c.now-30 || d.TurnaroundNs != 5 || d.WinRttNs != 30 || (d.TxNs-15-c.offset)%wrap != 0 {
				t.Errorf("%+v", d)
			}
			if jump := d.TxNs - c.txWas; c.txWas != 0 && (jump > 100 || jump < -100) {
				t.Errorf("tx_ns went from %d to %d", c.txWas, d.TxNs)
			}
			// What goes back is the stamp as it came, and the time of its arrival.
			_, out := l.out(toPeer(t, ack(5)))
			want := rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, Token: tokenOf(peer4), T1: c.now % wrap, EchoT1: (peer - 10) % wrap, EchoT2: c.now % wrap}
			if s := stampOf(t, out); s != want {
				t.Errorf("echo %+v, want %+v", s, want)
			}
		})
	}
}

// Ingress never makes an entry: only this host's own traffic does.
func TestIngressMakesNoEntries(t *testing.T) {
	l := newLab(t)
	for _, d := range []rocev2.Datagram{write(64), ack(1), over6(write(64)), stamped(write(64), someStamp, 1),
		{Src: peer4, Dst: us4, Opcode: rocev2.CNP}} {
		l.in(fromPeer(t, d))
	}
	if n := l.entries(); n != 0 {
		t.Errorf("%d entries", n)
	}
	l.wantNoEvent()
}

// The queue of active destinations may be full; that costs the agent a look at
// one destination, and nothing else.
func TestActiveQueueFull(t *testing.T) {
	l := newLab(t, func(s *ebpf.CollectionSpec) { s.Maps["active"].MaxEntries = 1 })
	sends := func(d *bpf.DestRegs) { d.LastTxNs = labStart }
	l.know(peer4, sends)
	l.know(peer6, sends)
	cnp := rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.CNP}
	l.in(fromPeer(t, cnp))
	l.in(fromPeer(t, over6(cnp)))
	l.wantCounters("rx_cnp", "rx_unstamped", "rx_cnp", "rx_unstamped", "active_lost")
	if l.regs(peer4).Queued != 1 || l.regs(peer6).Queued != 0 {
		t.Error("a destination that did not fit must not count as queued")
	}
}
