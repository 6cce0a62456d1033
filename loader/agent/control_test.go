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
	c := control{
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
			h, err := p.Hello()
			sent, op = h, p.Opcode()
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
}
