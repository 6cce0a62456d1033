// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mad"
)

const labStart = 1_000_000_000 // where the lab's clock stands

// A packet to a peer that understands the option leaves with one, and is then
// byte for byte what the codec would have built.
func TestEgressStamps(t *testing.T) {
	l := newLab(t)
	for _, v6 := range []bool{false, true} {
		for _, d := range []rocev2.Datagram{write(64), write(1), write(1024), ack(5)} {
			t.Run(fmt.Sprintf("v6=%v/%s/%d bytes", v6, d.Opcode, len(d.Payload)), func(t *testing.T) {
				l := l.with(t)
				if v6 {
					d = over6(d)
				}
				l.know(peerOf(v6), aware)
				verdict, out := l.out(toPeer(t, d))
				want := toPeer(t, stamped(d, rocev2.Stamp{Flags: rocev2.StampT1, T1: labStart}))
				if verdict != tcNext || !bytes.Equal(out, want) {
					t.Errorf("verdict %d\n got %x\nwant %x", verdict, out, want)
				}
				l.wantCounters("tx_stamped")
				r := l.regs(peerOf(v6))
				if r.TxPackets != 1 || r.TxBytes != uint64(len(packet(t, d))) || r.LastTxNs != labStart || r.TxUnstamped != 0 || r.Queued != 1 {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

// The option takes the place of Ethernet padding.
func TestEgressPadding(t *testing.T) {
	l := newLab(t)
	l.know(peer4, aware)
	_, out := l.out(append(toPeer(t, ack(5)), 1, 2, 3))
	if want := toPeer(t, stamped(ack(5), rocev2.Stamp{Flags: rocev2.StampT1, T1: labStart})); !bytes.Equal(out, want) {
		t.Errorf(" got %x\nwant %x", out, want)
	}
}

// Every packet echoes the latest stamp of the peer; CE is echoed once.
func TestEgressEcho(t *testing.T) {
	const t1, inTx = 77_000, -12
	stampedPeer := func(d *bpf.DestRegs) {
		aware(d)
		d.PeerT1Ns, d.InTxNs = t1, inTx
		d.EchoGuard = ^(d.PeerT1Ns ^ uint64(d.InTxNs))
	}
	ce := func(d *bpf.DestRegs) { d.CePending = 1 }
	plain := rocev2.Stamp{Flags: rocev2.StampT1, Token: tokenOf(peer4), T1: t1 + 50}
	echo := rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, Token: tokenOf(peer4), T1: t1 + 50, EchoT1: t1, EchoT2: t1 + inTx}
	with := func(s rocev2.Stamp, flags uint8) rocev2.Stamp { s.Flags |= flags; return s }
	l := newLab(t)
	for _, c := range []struct {
		name  string
		peer  []func(*bpf.DestRegs)
		after uint64 // time since T1
		want  rocev2.Stamp
	}{
		{"nothing to tell", []func(*bpf.DestRegs){aware}, 50, plain},
		{"a stamp", []func(*bpf.DestRegs){stampedPeer}, 50, echo},
		{"CE", []func(*bpf.DestRegs){aware, ce}, 50, with(plain, rocev2.StampCE)},
		{"both", []func(*bpf.DestRegs){stampedPeer, ce}, 50, with(echo, rocev2.StampCE)},
		{"registers that ingress is just writing", []func(*bpf.DestRegs){stampedPeer, func(d *bpf.DestRegs) { d.PeerT1Ns++ }}, 50, plain},
		{"a stamp that nothing answered for long", []func(*bpf.DestRegs){stampedPeer}, 1_000_000_001,
			rocev2.Stamp{Flags: rocev2.StampT1, Token: tokenOf(peer4), T1: t1 + 1_000_000_001}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			l.know(peer4, c.peer...)
			l.at(t1 + c.after)
			if _, out := l.out(toPeer(t, ack(5))); !bytes.Equal(out, toPeer(t, stamped(ack(5), c.want))) {
				t.Errorf("got %+v, want %+v", stampOf(t, out), c.want)
			}
			l.at(t1 + c.after + 1)
			_, out := l.out(toPeer(t, ack(6)))
			again := c.want
			again.T1++
			again.Flags &^= rocev2.StampCE
			if s := stampOf(t, out); s != again {
				t.Errorf("second packet: %+v, want %+v", s, again)
			}
		})
	}
}

// A first packet makes the entry and an event for the agent, which then sends a HELLO.
func TestEgressMakesEntries(t *testing.T) {
	l := newLab(t)
	l.config(func(c *bpf.Config) { c.InitialRateBps = 123e6 })
	for _, v6 := range []bool{false, true} {
		d := write(64)
		if v6 {
			d = over6(d)
		}
		f := toPeer(t, d)
		for range 2 {
			if verdict, out := l.out(f); verdict != tcNext || !bytes.Equal(out, f) {
				t.Errorf("verdict %d\n got %x\nwant %x", verdict, out, f)
			}
		}
		l.wantCounters("tx_unaware", "tx_unaware")
		r := l.regs(peerOf(v6))
		if r.LastTxNs != labStart || r.RateBps != 123e6 || r.StackRateBps != 123e6 || r.EngineRateBps != 123e6 || r.Policy.RateBps != 123e6 || r.RxToken != tokenOf(peerOf(v6)) || r.TxToken != 0 || r.Caps != 0 ||
			r.TxPackets != 2 || r.TxUnstamped != 2 || r.WinTxNs != bpf.NoSample || r.WinRxNs != bpf.NoSample || r.WinRttNs != bpf.NoSample {
			t.Errorf("%+v", r)
		}
		l.wantEvent(bpf.EventNewDest, peerOf(v6))
		l.wantNoEvent()
	}
}

// A full table: traffic goes on, unpaced and unstamped, and the entries stay.
func TestTableFull(t *testing.T) {
	l := newLab(t, func(s *ebpf.CollectionSpec) { s.Maps["dest_table"].MaxEntries = 2 })
	l.know(peer4, aware)
	l.know(peer6)
	d := write(64)
	d.Src = netip.MustParseAddr("10.0.0.9")
	f := toPeer(t, d)
	if verdict, out := l.out(f); verdict != tcNext || !bytes.Equal(out, f) {
		t.Errorf("verdict %d\n got %x\nwant %x", verdict, out, f)
	}
	l.wantCounters("tx_table_full")
	l.wantNoEvent()
	l.regs(peer4)
	l.regs(peer6)
}

// Events that are not read are counted, and stop nothing.
func TestEventsLost(t *testing.T) {
	l := newLab(t, func(s *ebpf.CollectionSpec) { s.Maps["events"].MaxEntries = 4096 })
	for i := range 100 {
		d := write(64)
		d.Src = netip.AddrFrom4([4]byte{10, 1, 0, byte(i)})
		l.out(toPeer(t, d))
	}
	if c := l.counters(); c["tx_unaware"] != 100 || c["events_lost"] == 0 || l.entries() != 100 {
		t.Error(c, l.entries())
	}
}

// RoCEv2 that egress sends unchanged, and why.
func TestEgressPassesUntouched(t *testing.T) {
	plain := toPeer(t, write(64))
	put16 := func(at int, v uint16) func([]byte) {
		return func(f []byte) { binary.BigEndian.PutUint16(f[at:], v); fixIPv4(f) }
	}
	withOptions := slices.Insert(slices.Clone(plain), offUDP4, 1, 1, 1, 0)
	withOptions[offIP] = 0x46
	addToIPLength(withOptions, 4)
	surplus := append(slices.Clone(plain), 0, 0, 0, 0)
	addToIPLength(surplus, 4)

	l := newLab(t)
	for _, c := range []struct {
		name  string
		frame []byte
		count string
		entry bool // the packet counts in its destination's entry
	}{
		{"first fragment", edit(plain, put16(offIP+6, 0x2000)), "tx_fragment", false},
		{"IPv4 options", withOptions, "tx_ip_options", false},
		{"UDP length above the IP length", edit(plain, put16(offUDP4+4, 2000)), "tx_malformed", false},
		{"UDP length odd", edit(plain, put16(offUDP4+4, uint16(len(plain)-offUDP4-1))), "tx_malformed", false},
		{"IP length above the frame", edit(plain, put16(offIP+2, uint16(len(plain)))), "tx_malformed", false},
		{"frame ends inside the BTH", plain[:offBTH4+8], "tx_malformed", false},
		{"UDP checksum", edit(plain, put16(offUDP4+6, 0x1234)), "tx_udp_checksum", true},
		{"stamped already", toPeer(t, stamped(write(64), someStamp)), "tx_option_foreign", true},
		{"other surplus", surplus, "tx_option_foreign", true},
		{"no room in the MTU", toPeer(t, write(labMTU-60-39)), "tx_too_big", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			l.know(peer4, aware)
			verdict, out := l.out(c.frame)
			if verdict != tcNext || !bytes.Equal(out, c.frame) {
				t.Errorf("verdict %d\n got %x\nwant %x", verdict, out, c.frame)
			}
			l.wantCounters(c.count)
			if r := l.regs(peer4); (r.TxPackets == 1) != c.entry || r.TxPackets != r.TxUnstamped {
				t.Errorf("%+v", r)
			}
		})
	}

	t.Run("segmentation offload", func(t *testing.T) {
		l := l.with(t)
		l.know(peer4, aware)
		var ctx skbContext
		ctx.put32(skbGSOSize, 1024)
		ctx.put32(skbGSOSegs, 2)
		if _, out := l.run(l.objs.SoftroceEgress, &ebpf.RunOptions{Data: plain, Context: &ctx}); !bytes.Equal(out, plain) {
			t.Errorf(" got %x\nwant %x", out, plain)
		}
		l.wantCounters("tx_gso")
	})

	t.Run("just room in the MTU", func(t *testing.T) {
		l := l.with(t)
		l.know(peer4, aware)
		f := toPeer(t, write(labMTU-60-40))
		if _, out := l.out(f); len(out) != 14+labMTU {
			t.Errorf("%d bytes", len(out))
		}
		l.wantCounters("tx_stamped")
	})
}

// Regressions of the PSN are retransmissions, per flow.
func TestEgressPSNRegressions(t *testing.T) {
	type sent struct {
		op  rocev2.Opcode
		qpn uint32
		psn rocev2.PSN
	}
	const w = rocev2.RCWriteOnly
	l := newLab(t)
	for _, c := range []struct {
		name string
		sent []sent
		want uint64
	}{
		{"in order", []sent{{w, 17, 5}, {w, 17, 6}, {w, 17, 7}}, 0},
		{"a gap: a READ takes several PSNs", []sent{{rocev2.RCReadRequest, 17, 5}, {w, 17, 9}}, 0},
		{"the same again", []sent{{w, 17, 5}, {w, 17, 5}}, 1},
		{"back and forward", []sent{{w, 17, 5}, {w, 17, 6}, {w, 17, 5}, {w, 17, 6}}, 1},
		{"wrap from 0xffffff to 0", []sent{{w, 17, 0xffffff}, {w, 17, 0}}, 0},
		{"regression across the wrap", []sent{{w, 17, 1}, {w, 17, 0xfffffe}}, 1},
		{"half the number space ahead is forward", []sent{{w, 17, 5}, {w, 17, 5 + 0x800000}}, 0},
		{"one more is back", []sent{{w, 17, 5}, {w, 17, 5 + 0x800001}}, 1},
		{"two flows in two slots", []sent{{w, 17, 500}, {w, 18, 5}, {w, 17, 501}, {w, 18, 6}}, 0},
		{"two flows in one slot: the later one has it", []sent{{w, 17, 500}, {w, 21, 5}, {w, 17, 400}}, 0},
		{"responses have the requester's PSNs", []sent{{rocev2.RCAck, 17, 9}, {rocev2.RCAck, 17, 8}, {rocev2.RCReadResponseOnly, 17, 3}}, 0},
		{"UD has no retransmission", []sent{{rocev2.UDSendOnly, 17, 9}, {rocev2.UDSendOnly, 17, 8}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			for _, s := range c.sent {
				l.out(toPeer(t, rocev2.Datagram{Src: peer4, Dst: us4, Opcode: s.op, DestQP: s.qpn, PSN: s.psn}))
			}
			if r := l.regs(peer4); r.PsnRegressions != c.want || uint64(r.WinLoss) != c.want {
				t.Errorf("%d PSN regressions, %d in the window, want %d", r.PsnRegressions, r.WinLoss, c.want)
			}
		})
	}
}

// A PSN regression is no sign of loss while all repeated packets wait in the pacer: the
// sender's timeout is shorter than the wait. If one of them has left, it is.
func TestPSNRegressionInPacer(t *testing.T) {
	l := newLab(t)
	l.config(func(cfg *bpf.Config) { cfg.Pacer = bpf.PacerHTB })
	const first, burst = 100, 10 // packets of frameNs each
	for _, c := range []struct {
		name  string
		after uint64 // the burst began, ns
		psn   rocev2.PSN
		rate  uint64
		loss  uint32
	}{
		{"all wait", 0, first, rate, 0},
		{"the last alone is repeated", 0, first + burst - 1, rate, 0},
		{"one has left, and is repeated", frameNs, first, rate, 1},
		{"one has left, the next is repeated", frameNs, first + 1, rate, 0},
		{"three have left, the third is repeated", 3 * frameNs, first + 2, rate, 1},
		{"all have left", burst * frameNs, first + burst - 1, rate, 1},
		{"unpaced", 0, first + 5, 0, 1},
		{"the wait is at its longest", 0, first - 90, rate / 1_000_000, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			l.know(peer4, func(d *bpf.DestRegs) { paced(d); d.StackRateBps = c.rate })
			send := func(psn rocev2.PSN) {
				l.out(toPeer(t, rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.RCWriteOnly, DestQP: 17, PSN: psn, Payload: make([]byte, 64)}))
			}
			l.at(labStart)
			for psn := range rocev2.PSN(burst) {
				send(first + psn)
			}
			l.at(labStart + c.after)
			send(c.psn)
			if r := l.regs(peer4); r.PsnRegressions != 1 || r.WinLoss != c.loss {
				t.Errorf("%d PSN regressions, %d signs of loss, want 1 and %d", r.PsnRegressions, r.WinLoss, c.loss)
			}
		})
	}
}

// Round trips of peers that do not understand the option: one packet that will be
// acknowledged is watched at a time.
func TestRTTProbe(t *testing.T) {
	l := newLab(t)
	send := func(op rocev2.Opcode, psn rocev2.PSN, ackReq bool) {
		l.out(toPeer(t, rocev2.Datagram{Src: peer4, Dst: us4, Opcode: op, DestQP: 17, PSN: psn, AckReq: ackReq}))
	}
	answer := func(psn rocev2.PSN) { l.in(fromPeer(t, ack(psn))) }
	want := func(rtt, min int64) {
		t.Helper()
		if r := l.regs(peer4); r.RttNs != rtt || r.WinRttNs != min {
			t.Errorf("rtt %d, minimum %d, want %d, %d", r.RttNs, r.WinRttNs, rtt, min)
		}
	}
	l.at(1000)
	send(rocev2.RCWriteFirst, 9, false) // will not be acknowledged
	l.at(1100)
	send(rocev2.RCWriteLast, 10, true) // the probe
	l.at(1200)
	send(rocev2.RCWriteOnly, 11, true) // one at a time
	l.at(1350)
	answer(10)
	want(250, 250)
	l.at(1400)
	answer(11)
	want(250, 250)
	send(rocev2.RCFetchAdd, 12, false)
	l.at(1900)
	l.in(fromPeer(t, rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.RCAtomicAck, PSN: 12}))
	want(500, 250)

	// Karn: the answer to a packet sent twice is the answer to either.
	send(rocev2.RCWriteOnly, 13, true)
	l.at(2000)
	send(rocev2.RCFlush, 12, false)
	if r := l.regs(peer4); r.ProbeNs != 0 || r.PsnRegressions != 1 {
		t.Errorf("after a PSN regression: probe of %d, %d regressions", r.ProbeNs, r.PsnRegressions)
	}

	// A probe without an answer is given up after a second.
	send(rocev2.RCWriteOnly, 14, true)
	l.at(2000 + 999_999_999)
	send(rocev2.RCWriteOnly, 15, true)
	if r := l.regs(peer4); r.ProbePsn != 14 {
		t.Errorf("probe of PSN %d, want 14", r.ProbePsn)
	}
	l.at(2000 + 1_000_000_000)
	send(rocev2.RCWriteOnly, 16, true)
	if r := l.regs(peer4); r.ProbePsn != 16 {
		t.Errorf("probe of PSN %d, want 16", r.ProbePsn)
	}
}

// The stamp of a frame that must have one.
func stampOf(t testing.TB, frame []byte) rocev2.Stamp {
	t.Helper()
	p, err := rocev2.ParseFrame(frame)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Stamp()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Fields of struct __sk_buff, as a test run takes and returns them.
type skbContext [192]byte

const (
	skbPriority = 32
	skbTstamp   = 152
	skbGSOSegs  = 164
	skbGSOSize  = 176
)

func (c *skbContext) put32(at int, v uint32) { binary.NativeEndian.PutUint32(c[at:], v) }
func (c *skbContext) get32(at int) uint32    { return binary.NativeEndian.Uint32(c[at:]) }
func (c *skbContext) get64(at int) uint64    { return binary.NativeEndian.Uint64(c[at:]) }

// Answers of the kernel's communication manager make no entry, as anybody can have a REQ answered. Requests
// and all other packets to queue pair 1 do (S10).
func TestAnswersMakeNoEntry(t *testing.T) {
	l := newLab(t)
	for attr := mad.AttrREQ; attr <= mad.AttrSIDRREP; attr++ {
		m := make([]byte, mad.Len)
		copy(m, mad.NewREQ(1).Header)
		binary.BigEndian.PutUint16(m[16:], uint16(attr))
		answer := slices.Contains([]mad.Attr{mad.AttrMRA, mad.AttrREJ, mad.AttrREP, mad.AttrDREP, mad.AttrSIDRREP}, attr)
		for _, d := range []rocev2.Datagram{gsi(m), over6(gsi(m))} {
			l := l.with(t)
			f := toPeer(t, d)
			if verdict, out := l.out(f); verdict != tcNext || !bytes.Equal(out, f) {
				t.Errorf("%s: verdict %d, changed %v", attr, verdict, !bytes.Equal(out, f))
			}
			l.wantCounters("tx_unaware")
			if n := l.entries(); n == 0 != answer {
				t.Errorf("%s: %d entries", attr, n)
			}
			// With an entry it is a packet like any other.
			l.know(peerOf(d.Src.Is6()), aware)
			if _, out := l.out(f); len(out) != len(f)+rocev2.StampLen {
				t.Errorf("%s to a known peer: %d bytes, was %d", attr, len(out), len(f))
			}
			l.counters()
		}
	}
}
