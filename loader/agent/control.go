// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"log/slog"
	"net/netip"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
)

// control builds and sends the control packets of this host: HELLO, HELLO_ACK, ECHO and RATE_LIMIT.
type control struct {
	origin rocev2.Hello // node, capabilities and link rate; Nonce and Token differ per packet
	secret bpf.Secret
	send   func(src, peer netip.Addr, build packetBuilder) error // the zero src: that of the route
	mtu    func(peer netip.Addr) int                             // MTU of the path to the peer, bytes of IP, 0 = unknown

	log *slog.Logger
}

// packetBuilder writes a packet between two addresses into b and returns its length.
type packetBuilder func(b []byte, src, dst netip.Addr) (int, error)

// hello sends a HELLO from src. The peer returns the nonce in its HELLO_ACK, with the token for
// stamps from src.
func (c *control) hello(src netip.Addr, peer bpf.DestKey) {
	h := c.origin
	h.Nonce = c.secret.Nonce(peer)
	c.transmit("HELLO", src, peer, func(b []byte, src, dst netip.Addr) (int, error) {
		return rocev2.BuildHello(b, src, dst, h)
	})
}

// ask sends a HELLO from src that asks whether the peer stamps.
func (c *control) ask(src netip.Addr, peer bpf.DestKey) {
	h := c.origin
	h.Nonce, h.Asks = c.secret.Nonce(peer), true
	c.transmit("HELLO", src, peer, func(b []byte, src, dst netip.Addr) (int, error) {
		return rocev2.BuildHello(b, src, dst, h)
	})
}

// helloAck answers a HELLO to src where the data plane leaves this to the agent: on veth, and if the HELLO
// asks whether this host stamps. Egress, if it is there, adds T1 and the length up to which it does. The
// agent only knows the path.
func (c *control) helloAck(src netip.Addr, e *bpf.Event) {
	h := c.origin
	h.Nonce, h.Token = e.Nonce, c.secret.Token(e.Peer)
	stamp := rocev2.Stamp{Flags: rocev2.StampEcho, EchoT1: e.T1Ns, EchoT2: e.Ns}
	if h.Asks = e.Proven&bpf.HelloAsks != 0; h.Asks {
		stamp.Credit = uint32(max(c.mtu(bpf.AddrOf(e.Peer))-rocev2.StampLen, 0))
	}
	c.transmit("HELLO_ACK", src, e.Peer, func(b []byte, src, dst netip.Addr) (int, error) {
		return rocev2.BuildHelloAck(b, src, dst, h, stamp)
	})
}

// echo sends an ECHO. Egress appends the stamp.
func (c *control) echo(src netip.Addr, peer bpf.DestKey) {
	c.transmit("ECHO", src, peer, rocev2.BuildEcho)
}

// rateLimit sends a RATE_LIMIT. Egress appends the stamp.
func (c *control) rateLimit(src netip.Addr, peer bpf.DestKey, f rocev2.RateLimitFields) {
	c.transmit("RATE_LIMIT", src, peer, func(b []byte, src, dst netip.Addr) (int, error) {
		return rocev2.BuildRateLimit(b, src, dst, f)
	})
}

func (c *control) transmit(kind string, src netip.Addr, peer bpf.DestKey, build packetBuilder) {
	addr := bpf.AddrOf(peer)
	if err := c.send(src, addr, build); err != nil {
		c.log.Debug(kind+" not sent", "from", src, "peer", addr, "err", err)
	}
}
