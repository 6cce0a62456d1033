// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
)

// Control packets carry what this host is, and what the peer must return or present.
func TestControlPackets(t *testing.T) {
	var sent rocev2.Hello
	var op rocev2.Opcode
	var room uint32
	c := control{
		mtu:    func(peer netip.Addr) int { return 1400 },
		origin: rocev2.Hello{Node: 3, Caps: uint32(bpf.CapStamp | bpf.CapSACK), LinkMbps: 25_000},
		secret: bpf.NewSecret(), log: slog.New(slog.DiscardHandler),
		send: func(src, peer netip.Addr, build packetBuilder) error {
			var b [rocev2.MaxHelloLen]byte
			n, err := build(b[:], src, peer)
			if err != nil {
				t.Fatal(err)
			}
			p, err := rocev2.ParseIP(b[:n])
			if err != nil {
				t.Fatal(err)
			}
			s, err := p.Stamp()
			if err != nil || s.Flags&rocev2.StampT1 != 0 {
				t.Errorf("T1 is what egress adds: %+v, %v", s, err)
			}
			h, err := p.Hello()
			sent, op, room = h, p.Opcode(), s.Credit
			return err
		},
	}
	key := keyN(2)
	want := c.origin
	want.Nonce = c.secret.Nonce(key)
	if c.hello(peerN(1), key); op != rocev2.OpHello || sent != want {
		t.Errorf("%v %+v, want %+v", op, sent, want)
	}
	want.Nonce, want.Token = 77, c.secret.Token(key)
	if c.helloAck(peerN(1), &bpf.Event{Peer: key, Nonce: 77}); op != rocev2.OpHelloAck || sent != want {
		t.Errorf("%v %+v, want %+v", op, sent, want)
	}
	if room != 0 {
		t.Errorf("it says %d of the path, and was not asked", room)
	}
	// The question of this host, and the answer to that of a peer: what the path lets it stamp.
	want.Asks = true
	if c.helloAck(peerN(1), &bpf.Event{Peer: key, Nonce: 77, Proven: bpf.HelloProven | bpf.HelloAsks}); op != rocev2.OpHelloAck || sent != want || room != 1400-rocev2.StampLen {
		t.Errorf("%v %+v, %d; want %+v", op, sent, room, want)
	}
	want.Nonce, want.Token = c.secret.Nonce(key), 0
	if c.ask(peerN(1), key); op != rocev2.OpHello || sent != want {
		t.Errorf("%v %+v, want %+v", op, sent, want)
	}
}
