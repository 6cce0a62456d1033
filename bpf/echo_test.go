// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
)

// echo is an ECHO of the peer: my data left at sent, arrived there at arrived, and the ECHO
// left at left.
func echo(v6 bool, sent, arrived, left uint64) rocev2.Datagram {
	d := rocev2.Datagram{Src: peer4, Dst: us4, IPID: 1, Opcode: rocev2.OpEcho, DestQP: rocev2.ControlQPN}
	if v6 {
		d = over6(d)
	}
	return stamped(d, rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, T1: left, EchoT1: sent, EchoT2: arrived})
}

func srcOf(v6 bool) rocev2.Datagram {
	if v6 {
		return over6(write(64))
	}
	return write(64)
}

// An ECHO ends here. It is feedback, but it is not the peer's data: S1.3 stays.
func TestEcho(t *testing.T) {
	const now = labStart
	l := newLab(t)
	for _, v6 := range []bool{false, true} {
		for _, c := range []struct {
			name   string
			frame  func() []byte
			peer   func(*bpf.DestRegs)
			counts []string
			active bool
			want   func(bpf.DestRegs) bool
		}{
			{"of data that arrived 3 ms ago", func() []byte { return fromPeer(t, echo(v6, now-3_000_500, 700, 3_000_700)) }, nil,
				[]string{"echo_received"}, true,
				func(d bpf.DestRegs) bool {
					return d.TxNs == 700-(now-3_000_500) && d.RxNs == now-3_000_700 && d.WinTxNs == d.TxNs && d.WinRxNs == d.RxNs &&
						d.WinRttNs == 500 && d.WinSamples == 1 && d.TurnaroundNs == 0 && d.LastEchoT1Ns == now-3_000_500
				}},
			{"of a packet of the last rate", func() []byte { return fromPeer(t, echo(v6, now-50, 700, 720)) },
				func(d *bpf.DestRegs) { d.ValidAfterNs = now - 49 }, []string{"echo_received", "rx_echo_stale"}, true,
				func(d bpf.DestRegs) bool { return d.WinSamples == 0 && d.TxNs == 700-(now-50) }},
			{"that came before", func() []byte { return fromPeer(t, echo(v6, now-50, 700, 720)) },
				func(d *bpf.DestRegs) { d.LastEchoT1Ns = now - 50; d.RxNs = 77 }, []string{"echo_received"}, true,
				func(d bpf.DestRegs) bool { return d.WinSamples == 0 && d.RxNs == 77 }},
			{"that was overtaken", func() []byte { return fromPeer(t, echo(v6, now-50, 700, 720)) },
				func(d *bpf.DestRegs) { d.LastEchoT1Ns = now - 40; d.RxNs = 77 }, []string{"echo_received"}, true,
				func(d bpf.DestRegs) bool { return d.WinSamples == 0 && d.RxNs == 77 }},
			{"of data that never left", func() []byte { return fromPeer(t, echo(v6, now+50, 700, 720)) }, nil,
				[]string{"echo_received", "rx_echo_absurd"}, true, func(d bpf.DestRegs) bool { return d.WinSamples == 0 && d.TxNs == 0 }},
			{"with CE", func() []byte {
				d := echo(v6, now-50, 700, 720)
				d.Stamp.Flags |= rocev2.StampCE
				return fromPeer(t, d)
			}, nil, []string{"echo_received"}, true, func(d bpf.DestRegs) bool { return d.WinCe == 1 && d.WinSamples == 1 }},
			{"without an echo", func() []byte {
				d := echo(v6, 1, 2, 3)
				d.Stamp.Flags = rocev2.StampT1
				return fromPeer(t, d)
			}, nil, []string{"echo_received"}, false, func(d bpf.DestRegs) bool { return d.WinSamples == 0 }},
			{"with a wrong ICRC", func() []byte {
				f := fromPeer(t, echo(v6, now-50, 700, 720))
				f[len(f)-rocev2.StampLen-1] ^= 1
				return f
			}, nil, []string{"control_bad_icrc"}, false, func(d bpf.DestRegs) bool { return d.WinSamples == 0 && d.LastEchoT1Ns == 0 }},
			{"without the option", func() []byte {
				d := echo(v6, 1, 2, 3)
				d.Stamp = nil
				return fromPeer(t, d)
			}, nil, []string{"control_malformed"}, false, func(d bpf.DestRegs) bool { return d.WinSamples == 0 }},
		} {
			t.Run(fmt.Sprintf("v6=%v/%s", v6, c.name), func(t *testing.T) {
				l := l.with(t)
				peer := peerOf(v6)
				l.know(peer, aware, func(d *bpf.DestRegs) {
					d.PeerT1Ns, d.InTxNs, d.EchoGuard = 600, 50, ^uint64(600^50)
					if c.peer != nil {
						c.peer(d)
					}
				})
				if verdict, _ := l.in(c.frame()); verdict != xdpDrop {
					t.Errorf("verdict %d", verdict)
				}
				l.wantCounters(c.counts...)
				d := l.regs(peer)
				if !c.want(d) {
					t.Errorf("%+v", d)
				}
				if d.PeerT1Ns != 600 || d.InTxNs != 50 || d.EchoGuard != ^uint64(600^50) || d.RxPackets != 0 {
					t.Errorf("taken for data: %+v", d)
				}
				var k bpf.DestKey
				if active := l.objs.Active.LookupAndDelete(nil, &k) == nil; active != c.active {
					t.Errorf("on the agent's list: %v", active)
				}
				l.wantNoEvent()
			})
		}
	}
}

// A peer may echo a stamp that it got before this host was detached and attached again. That is
// no sample of the new entry, whichever program has made it.
func TestEchoFromBeforeEntry(t *testing.T) {
	l := newLab(t)
	for _, v6 := range []bool{false, true} {
		for _, c := range []struct {
			name string
			make func(l *lab)
		}{
			{"egress", func(l *lab) { l.out(toPeer(t, srcOf(v6))) }},
			{"engine", func(l *lab) { l.engineSync(bpf.EngineSlot{Key: bpf.KeyOf(peerOf(v6)), TxPackets: 1, TxBytes: 100}) }},
		} {
			t.Run(fmt.Sprintf("v6=%v/%s", v6, c.name), func(t *testing.T) {
				l := l.with(t)
				l.at(labStart)
				c.make(l)
				l.event()
				l.counters()
				l.at(labStart + 1000)
				l.in(fromPeer(t, echo(v6, labStart-400_000_000, 700, 720)))
				l.wantCounters("echo_received", "rx_echo_stale")
				if d := l.regs(peerOf(v6)); d.WinSamples != 0 || d.WinRttNs != bpf.NoSample || d.WinRxNs != bpf.NoSample {
					t.Errorf("a sample: %+v", d)
				}
				l.in(fromPeer(t, echo(v6, labStart, 700, 720))) // the packet that made the entry
				l.wantCounters("echo_received")
				if d := l.regs(peerOf(v6)); d.WinSamples != 1 || d.WinRttNs != 1000-20 {
					t.Errorf("no sample: %+v", d)
				}
			})
		}
	}
}

// An ECHO of an unverified peer makes no entry and costs no more than the lookup.
func TestEchoUnknown(t *testing.T) {
	l := newLab(t)
	for _, v6 := range []bool{false, true} {
		f := fromPeer(t, echo(v6, 1, 2, 3))
		f[len(f)-rocev2.StampLen-1] ^= 1 // its ICRC is not even computed
		if verdict, _ := l.in(f); verdict != xdpDrop {
			t.Errorf("verdict %d", verdict)
		}
		l.wantCounters("echo_unknown")
	}
	if n := l.entries(); n != 0 {
		t.Errorf("%d entries", n)
	}
	l.wantNoEvent()
}

// An ECHO with the address of a known peer is ignored without the token.
func TestEchoForged(t *testing.T) {
	l := newLab(t)
	l.know(peer4, aware)
	before := l.regs(peer4)
	forged := echo(false, labStart-9, 2, 3)
	l.in(fromPeer(t, stamped(forged, *forged.Stamp, 1)))
	l.wantCounters("rx_token_wrong")
	if r := l.regs(peer4); r != before {
		t.Errorf("%+v", r)
	}
}

// ownEcho is an ECHO of the agent as it comes to egress, and its destination.
func ownEcho(t *testing.T, v6 bool) (frame []byte, dst netip.Addr) {
	t.Helper()
	src, dst := us4, peer4
	if v6 {
		src, dst = us6, peer6
	}
	b := make([]byte, rocev2.MaxHelloLen)
	n, err := rocev2.BuildEcho(b, src, dst)
	if err != nil {
		t.Fatal(err)
	}
	return ethernet(peerMAC, usMAC, b[:n]), dst
}

// The agent's ECHO leaves with T1 and the echo of the latest stamp, everything else in it
// unchanged. It counts as no traffic.
func TestEchoEgress(t *testing.T) {
	l := newLab(t)
	for _, v6 := range []bool{false, true} {
		f, dst := ownEcho(t, v6)
		l.know(dst, aware)
		l.at(labStart)
		l.in(fromPeer(t, stamped(srcOf(v6), rocev2.Stamp{Flags: rocev2.StampT1, T1: 4000})))
		l.at(labStart + 5e6)
		want := bytes.Clone(f)
		s := rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, Token: tokenOf(dst), T1: labStart + 5e6, EchoT1: 4000, EchoT2: labStart}
		s.Put(want[len(want)-rocev2.StampLen:])
		if verdict, out := l.out(f); verdict != tcNext || !bytes.Equal(out, want) {
			t.Errorf("verdict %d\n got %x\nwant %x", verdict, out, want)
		}
		l.wantCounters("rx_stamped", "echo_sent")
		if d := l.regs(dst); d.TxPackets != 0 || d.LastTxNs != 0 || d.NextTxNs != 0 {
			t.Errorf("%+v", d)
		}
	}
}

// Feedback from an address for which the peer has given no token does not leave: the peer would refuse it. The agent is told
// to send a HELLO from there.
func TestFeedbackWithoutToken(t *testing.T) {
	l := newLab(t)
	for _, v6 := range []bool{false, true} {
		f, dst := ownEcho(t, v6)
		l.know(dst, aware, func(d *bpf.DestRegs) { d.TxOwn = 1 }) // the token is for another address
		if verdict, _ := l.out(f); verdict != tcDrop {
			t.Errorf("verdict %d", verdict)
		}
		l.wantCounters("tx_no_token")
		l.wantEvent(bpf.EventNewSource, dst)
	}
}

// The receive time of an acknowledgement has the receiver's turnaround in it (S1.4). No
// other packet has it: a READ every 5 ms would look like a turnaround of 5 ms, and so would
// the delay of a responder's pacer.
func TestTurnaround(t *testing.T) {
	const (
		sent = labStart - 10_000_000
		turn = 5_000_000
		way  = 3
	)
	l := newLab(t)
	l.at(labStart)
	for _, c := range []struct {
		op       rocev2.Opcode
		feedback bool
	}{
		{rocev2.RCAck, true}, {rocev2.RCAtomicAck, true}, {rocev2.OpSACK, true},
		{rocev2.RCReadRequest, false}, {rocev2.RCReadResponseFirst, false}, {rocev2.RCReadResponseMiddle, false},
		{rocev2.RCReadResponseOnly, false}, {rocev2.RCWriteOnly, false}, {rocev2.RCSendOnly, false}, {rocev2.RCFetchAdd, false},
		{rocev2.UCSendOnly, false}, {rocev2.UDSendOnly, false}, {rocev2.CNP, false},
	} {
		for _, v6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/v6=%v", c.op, v6), func(t *testing.T) {
				l := l.with(t)
				peer := peerOf(v6)
				d := rocev2.Datagram{Src: peer4, Dst: us4, Opcode: c.op, DestQP: 17, PSN: 5, Syndrome: 0x1f}
				if v6 {
					d = over6(d)
				}
				s := rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, T1: labStart - way, EchoT1: sent, EchoT2: labStart - way - turn}
				l.know(peer, aware)
				l.in(fromPeer(t, stamped(d, s)))
				want := bpf.DestRegs{RxNs: way, TurnaroundNs: 0}
				if c.feedback {
					want = bpf.DestRegs{RxNs: way + turn, TurnaroundNs: turn}
				}
				tx := int64(labStart - way - turn - sent)
				r := l.regs(peer)
				if r.RxNs != want.RxNs || r.TurnaroundNs != want.TurnaroundNs || r.TxNs != tx || r.WinRxNs != r.RxNs || r.WinRttNs != tx+r.RxNs || r.WinSamples != 1 {
					t.Errorf("rx %d turn %d tx %d, minima %d %d, %d samples; want rx %d turn %d tx %d", r.RxNs, r.TurnaroundNs, r.TxNs,
						r.WinRxNs, r.WinRttNs, r.WinSamples, want.RxNs, want.TurnaroundNs, tx)
				}
				l.counters()

				// Without a T1 the delay before the departure is unknown.
				l.know(peer, aware)
				s.Flags = rocev2.StampEcho
				l.in(fromPeer(t, stamped(d, s)))
				if r := l.regs(peer); (r.WinSamples == 1) != c.feedback {
					t.Errorf("without T1: %d samples", r.WinSamples)
				}
			})
		}
	}
}

// A reader posts a READ every 5 ms that takes 1 ms: rx_ns of its responder is the delay of
// the reverse path only.
func TestReaderThatRests(t *testing.T) {
	const way, every = 40_000, 5_000_000
	l := newLab(t)
	l.know(peer4, aware)
	request := rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.RCReadRequest, DestQP: 17, DMALen: 64}
	response := rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.RCReadResponseOnly, DestQP: 18, Payload: make([]byte, 64)}
	var echoed rocev2.Stamp
	for now := uint64(labStart); now < labStart+100*every; now += every {
		// The request left at now, with the echo of the response before it.
		s := echoed
		s.Flags |= rocev2.StampT1
		s.T1 = now
		l.at(now + way)
		request.PSN++
		l.in(fromPeer(t, stamped(request, s)))
		_, out := l.out(toPeer(t, response))
		left := stampOf(t, out)
		echoed = rocev2.Stamp{Flags: rocev2.StampEcho, EchoT1: left.T1, EchoT2: left.T1 + way}
		if d := l.regs(peer4); d.RxNs > way || d.TxNs > way || now > labStart && d.RxNs != way {
			t.Fatalf("after %d ms: tx %d rx %d, want %d", (now-labStart)/1e6, d.TxNs, d.RxNs, way)
		}
	}
}
