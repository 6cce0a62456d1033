// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
)

// A HELLO that asks whether this host stamps goes to the agent, if a peer has sent it. Without the token it
// is answered as any other.
func TestHelloAsks(t *testing.T) {
	l := newLab(t)
	ask := hello(false)
	ask.Hello.Asks = true
	if verdict, out := l.in(fromPeer(t, ask)); verdict != xdpTX {
		t.Errorf("without the token: verdict %d", verdict)
	} else if p, err := rocev2.ParseFrame(out); err != nil {
		t.Error(err)
	} else if h, err := p.Hello(); err != nil || h.Asks {
		t.Errorf("it is answered as a question: %+v, %v", h, err)
	}
	l.wantCounters("hello_answered")
	l.wantNoEvent()
	if verdict, _ := l.in(fromPeer(t, withToken(ask))); verdict != xdpDrop {
		t.Errorf("with the token: verdict %d", verdict)
	}
	l.wantCounters("hello_to_agent")
	if e := l.wantEvent(bpf.EventHello, peer4); e.Proven != bpf.HelloProven|bpf.HelloAsks || e.Nonce != helloNonce {
		t.Errorf("event %+v", e)
	}
}

// The answer says up to which length the peer stamps: egress of the peer has added T1, or has not. The
// HELLO_ACK of ingress only says what the MTU of the peer has room for.
func TestAnswers(t *testing.T) {
	const none = bpf.RoomNone
	for _, c := range []struct {
		name    string
		asks    bool
		flags   uint8
		credit  uint32
		before  uint16
		want    uint16
		answers uint8
	}{
		{"of ingress", false, rocev2.StampT1, 1460, 0, 1456, 0},
		{"of ingress, after one of egress", false, rocev2.StampT1, 1460, none, none, 0},
		{"of an earlier version", false, rocev2.StampT1, 0, 4144, 4144, 0},
		{"it stamps", true, rocev2.StampT1, 1460, none, 1456, 1},
		{"it stamps any length", true, rocev2.StampT1, 1 << 20, 0, 0xfff0, 1},
		{"it has no egress", true, 0, 1460, 1456, none, 1},
		{"its packets had room, and left without", true, rocev2.StampT1, 0, 1456, none, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			l.know(peer4, func(d *bpf.DestRegs) { d.PeerRoom = c.before })
			ack := helloAck(false, 0)
			ack.Hello.Asks, ack.Stamp.Flags, ack.Stamp.Credit = c.asks, c.flags, c.credit
			l.in(fromPeer(t, ack))
			if r := l.regs(peer4); r.PeerRoom != c.want || r.Answers != c.answers {
				t.Errorf("room %d, %d answers", r.PeerRoom, r.Answers)
			}
			forged := ack
			forged.Hello.Nonce++
			forged.Stamp = &rocev2.Stamp{Flags: rocev2.StampT1, Credit: 4096}
			l.in(fromPeer(t, forged))
			if r := l.regs(peer4); r.PeerRoom != c.want || r.Answers != c.answers {
				t.Errorf("a forged answer counts: room %d, %d answers", r.PeerRoom, r.Answers)
			}
		})
	}
}

// What the engine learns of the peer's stamps, and its question.
func TestEngineAsks(t *testing.T) {
	l := newLab(t)
	l.know(peer4, func(d *bpf.DestRegs) { d.PeerRoom, d.Answers, d.RxOwn = 1456, 3, bpf.OwnFirst4 })
	got := l.engineSync(bpf.EngineSlot{Key: bpf.KeyOf(peer4)})[0]
	if got.Found != 1456|bpf.Found|bpf.FoundAnswers|bpf.FoundProven {
		t.Errorf("%#x", got.Found)
	}
	l.wantNoEvent()
	l.know(peer6, func(d *bpf.DestRegs) { d.PeerRoom = bpf.RoomNone })
	got = l.engineSync(bpf.EngineSlot{Key: bpf.KeyOf(peer6), Flags: bpf.EngineAsks, TxToken: bpf.OwnWord(us6)})[0]
	if got.Found != bpf.Found|bpf.FoundBare {
		t.Errorf("%#x", got.Found)
	}
	if e := l.wantEvent(bpf.EventAsk, peer6); e.Own != bpf.OwnWord(us6) {
		t.Errorf("%+v", e)
	}
}

// The answer of egress: as much as the path and the MTU let it stamp, or nothing if a packet that had room
// has left without a stamp.
func TestAnswerOfEgress(t *testing.T) {
	l := newLab(t)
	l.know(peer4, func(d *bpf.DestRegs) { d.TxToken = 77; d.Caps |= bpf.CapStamp })
	answer := func(path uint32) uint32 {
		t.Helper()
		b := make([]byte, rocev2.MaxHelloLen)
		n, err := rocev2.BuildHelloAck(b, us4, peer4, rocev2.Hello{Nonce: 42, Asks: true}, rocev2.Stamp{Credit: path})
		if err != nil {
			t.Fatal(err)
		}
		_, out := l.out(ethernet(peerMAC, usMAC, b[:n]))
		s, err := rocev2.DecodeStamp(out[len(out)-rocev2.StampLen:], 1)
		if err != nil || s.Flags&rocev2.StampT1 == 0 {
			t.Fatalf("%+v, %v", s, err)
		}
		return s.Credit
	}
	for path, want := range map[uint32]uint32{0: labRoom, 1000: 1000, 9000: labRoom} {
		if got := answer(path); got != want {
			t.Errorf("path of %d: %d, want %d", path, got, want)
		}
	}
	l.out(toPeer(t, stamped(write(16), rocev2.Stamp{}))) // it has an option already
	if got := answer(0); got != 0 {
		t.Errorf("a packet left without a stamp, and the answer is %d", got)
	}
	if got := answer(0); got != labRoom {
		t.Errorf("none since, and the answer is %d", got)
	}
	for name, change := range map[string]func(*bpf.DestRegs){
		"it knows no token": func(d *bpf.DestRegs) { d.TxToken = 0 },
		"the peer is plain": func(d *bpf.DestRegs) { d.Caps = 0 },
	} {
		if l.know(peer4, change); answer(0) != 0 {
			t.Errorf("%s: it says that it stamps", name)
		}
	}
	if err := l.objs.DestTable.Delete(bpf.KeyOf(peer4)); err != nil {
		t.Fatal(err)
	}
	if answer(0) != 0 {
		t.Error("without an entry it says that it stamps")
	}
}
