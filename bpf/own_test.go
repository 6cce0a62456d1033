// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
)

var (
	second4 = netip.MustParseAddr("10.0.0.11")
	second6 = netip.MustParseAddr("fd00::11")
	other4  = netip.MustParseAddr("10.0.1.1") // addresses of other hosts
	other6  = netip.MustParseAddr("fd00:1::1")
)

// Packets to an address of another host pass as they are, whatever they are; those to every address
// of this host do not.
func TestForwardedPassesUnread(t *testing.T) {
	l := newLab(t)
	l.own(us4, us6, second4, second6)
	l.config(func(c *bpf.Config) { c.Steered = 1 })
	if err := l.objs.SteerTable.Put(uint32(17), &bpf.Steer{Queues: 1}); err != nil {
		t.Fatal(err)
	}
	full := rocev2.Stamp{Flags: 15, T1: labStart - 700, EchoT1: labStart - 100, EchoT2: 5, Credit: 1, CreditSeq: 1}
	credit := rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.OpCreditGrant, DestQP: rocev2.ControlQPN}
	for _, d := range []rocev2.Datagram{write(64), stamped(write(64), full), stamped(ack(9), full), hello(false), helloAck(false, 0), echo(false, 1, 2, 3), credit} {
		for _, v6 := range []bool{false, true} {
			to, second := other4, second4
			if v6 {
				d, to, second = over6(d), other6, second6
			}
			l := l.with(t)
			l.know(peerOf(v6), aware)
			before := l.regs(peerOf(v6))
			x := d
			x.Dst = to
			f := fromPeer(t, x)
			if verdict, out := l.in(f); verdict != xdpPass || !bytes.Equal(out, f) {
				t.Errorf("%v to %s: verdict %d, changed %v", d.Opcode, to, verdict, !bytes.Equal(out, f))
			}
			l.wantCounters("rx_forwarded")
			l.wantNoEvent()
			if after := l.regs(peerOf(v6)); after != before {
				t.Errorf("%v to %s: the entry changed: %+v", d.Opcode, to, after)
			}
			x.Dst = second
			l.in(fromPeer(t, x))
			if n := l.counters()["rx_forwarded"]; n != 0 {
				t.Errorf("%v to %s was forwarded", d.Opcode, second)
			}
		}
	}
}

// The entry has the number of the address to which the last proven stamp came.
func TestOwnNumber(t *testing.T) {
	l := newLab(t)
	l.own(us4, us6, second4, second6)
	for _, c := range []struct {
		dst    netip.Addr
		number uint16
	}{{us4, 1}, {us6, 2}, {second4, 3}, {second6, 4}} {
		l.know(peerOf(c.dst.Is6()), aware)
		d := write(64)
		if c.dst.Is6() {
			d = over6(d)
		}
		d.Dst = c.dst
		l.in(fromPeer(t, stamped(d, rocev2.Stamp{Flags: rocev2.StampT1, T1: 1}, 1)))
		if n := l.regs(d.Src).RxOwn; n != 0 {
			t.Errorf("a stamp with another token to %s made the number %d", c.dst, n)
		}
		l.in(fromPeer(t, stamped(d, rocev2.Stamp{Flags: rocev2.StampT1, T1: 1})))
		if n := l.regs(d.Src).RxOwn; n != c.number {
			t.Errorf("%s has the number %d, want %d", c.dst, n, c.number)
		}
	}
}

// Packets from another MAC address (a macvlan) or from an address of another host leave untouched.
func TestOtherSourcePassesUntouched(t *testing.T) {
	l := newLab(t)
	l.own(us4, us6)
	l.know(peer4, aware)
	from := func(src netip.Addr, mac [6]byte) []byte {
		d := write(64)
		d.Src, d.Dst = src, peer4
		return ethernet(peerMAC, mac, packet(t, d))
	}
	for _, f := range [][]byte{from(other4, usMAC), from(us4, [6]byte{2, 0, 0, 0, 0, 9})} {
		before := l.regs(peer4)
		if verdict, out := l.out(f); verdict != tcNext || !bytes.Equal(out, f) || l.regs(peer4) != before {
			t.Errorf("verdict %d, packet changed %v, entry %+v", verdict, !bytes.Equal(out, f), l.regs(peer4))
		}
		l.wantCounters("tx_other_source")
	}
	d := write(64)
	d.Src, d.Dst = other4, us4
	l.out(ethernet(peerMAC, usMAC, packet(t, d)))
	if n := l.entries(); n != 1 {
		t.Errorf("%d entries, want that of %s", n, peer4)
	}
	l.wantCounters("tx_other_source")
}

// Each address of this host has a token of its own of the peer. Without it the packet leaves
// unstamped, and the agent is told once.
func TestTokenOfSource(t *testing.T) {
	l := newLab(t)
	l.own(us4, us6, second4)
	l.know(peer4, aware)
	send := func(src netip.Addr) (rocev2.Stamp, bool) {
		t.Helper()
		d := write(64)
		d.Src, d.Dst = src, peer4
		_, out := l.out(ethernet(peerMAC, usMAC, packet(t, d)))
		return sentStamp(out)
	}
	if s, ok := send(us4); !ok || s.Token != tokenOf(peer4) {
		t.Errorf("from the first source: %+v, %v", s, ok)
	}
	l.wantCounters("tx_stamped")
	for range 2 {
		if s, ok := send(second4); ok {
			t.Errorf("from the second source without a token: %+v", s)
		}
		l.wantCounters("tx_no_token")
	}
	if e := l.wantEvent(bpf.EventNewSource, peer4); e.Own != bpf.OwnWord(second4) {
		t.Errorf("event %+v", e)
	}
	l.wantNoEvent()
	toSecond := helloAck(false, 0)
	toSecond.Dst = second4
	l.in(fromPeer(t, toSecond))
	if e := l.wantEvent(bpf.EventPeerAware, peer4); e.Own != bpf.OwnWord(second4) {
		t.Errorf("event %+v", e)
	}
	if s, ok := send(second4); !ok || s.Token != ackToken {
		t.Errorf("from the second source: %+v, %v", s, ok)
	}
	if s, ok := send(us4); !ok || s.Token != tokenOf(peer4) {
		t.Errorf("from the first source again: %+v, %v", s, ok)
	}
	// The engine, and control packets.
	for _, src := range []netip.Addr{us4, second4} {
		want := uint64(ackToken)
		if src == us4 {
			want = tokenOf(peer4)
		}
		slots := []bpf.EngineSlot{{Key: bpf.KeyOf(peer4), TxToken: bpf.OwnWord(src)}}
		if err := bpf.NewEngineSync(l.objs.SoftroceEngineSync).Run(slots); err != nil || slots[0].TxToken != want {
			t.Errorf("the engine's token for %s: %#x, %v", src, slots[0].TxToken, err)
		}
		ask := make([]byte, rocev2.MaxHelloLen)
		n, err := rocev2.BuildHello(ask, src, peer4, rocev2.Hello{})
		if err != nil {
			t.Fatal(err)
		}
		_, out := l.out(ethernet(peerMAC, usMAC, ask[:n]))
		if s, ok := sentStamp(out); !ok || s.Token != want {
			t.Errorf("HELLO from %s: %+v, %v", src, s, ok)
		}
	}
	l.counters()
}

// A HELLO_ACK to an address from which nothing was sent stores no token: the table of tokens grows
// by this host's own traffic only.
func TestTokenOfUnusedSource(t *testing.T) {
	l := newLab(t)
	l.own(us4, us6, second4)
	l.know(peer4, aware, func(d *bpf.DestRegs) { d.TxOwn = bpf.OwnWord(us4) })
	d := helloAck(false, 0)
	d.Dst = second4
	l.in(fromPeer(t, d))
	var token uint64
	if err := l.objs.TxTokens.Lookup(bpf.OwnPair{Peer: bpf.KeyOf(peer4), Own: bpf.OwnWord(second4)}, &token); err == nil {
		t.Errorf("token %#x", token)
	}
	if r := l.regs(peer4); r.TxToken != tokenOf(peer4) {
		t.Errorf("the token of the first source became %#x", r.TxToken)
	}
}
