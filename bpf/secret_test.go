// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
)

// Golden values of SipHash-2-4 under the key 00 01 .. 0f, by a second implementation that gives
// the vector of the SipHash paper (a129ca6149be45e5): the 16 bytes of the address and the one
// that says what for.
func TestSecret(t *testing.T) {
	key := bpf.DestKey{Addr: [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}
	if got := labSecret.Token(key); got != goldenToken {
		t.Errorf("token %#x, want %#x", got, uint64(goldenToken))
	}
	if got := labSecret.Nonce(key); got != goldenNonce {
		t.Errorf("nonce %#x, want %#x", got, uint64(goldenNonce))
	}
}

// The data plane computes the same: a new entry's token, and the nonce that it takes.
func TestSecretInDataPlane(t *testing.T) {
	l := newLab(t)
	for _, s := range []bpf.Secret{labSecret, bpf.NewSecret(), {}} {
		l.config(func(c *bpf.Config) { c.Secret = s })
		for _, to := range []netip.Addr{peer4, peer6} {
			l := l.with(t)
			d := write(64)
			if to.Is6() {
				d = over6(d)
			}
			l.out(toPeer(t, d))
			if got, want := l.regs(to).RxToken, s.Token(bpf.KeyOf(to)); got != want {
				t.Errorf("%s: token %#x, want %#x", to, got, want)
			}
			ack := helloAck(to.Is6(), 0)
			ack.Hello.Nonce = s.Nonce(bpf.KeyOf(to))
			l.counters()
			l.in(fromPeer(t, ack))
			l.wantCounters("hello_ack")
		}
	}
}

const (
	goldenToken = 0x9e746f70f504ba2e
	goldenNonce = 0xa225a9aae0ef2193
)
