// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
)

// Purposes of token and nonce, which lib/secret.h computes as well.
const (
	secretToken = 1
	secretNonce = 2
)

// Secret is the key of an attachment, Config.Secret.
type Secret [2]uint64

// NewSecret makes a random key.
func NewSecret() Secret {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return Secret{binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:])}
}

// Token returns what a peer's stamps must carry.
func (s Secret) Token(peer DestKey) uint64 { return s.of(peer, secretToken) }

// Nonce returns what a peer's HELLO_ACK must return.
func (s Secret) Nonce(peer DestKey) uint64 { return s.of(peer, secretNonce) }

// of is SipHash-2-4 of the address and one byte with the purpose. It is never 0.
func (s Secret) of(peer DestKey, purpose uint64) uint64 {
	h := sipHash{
		s[0] ^ 0x736f6d6570736575, s[1] ^ 0x646f72616e646f6d,
		s[0] ^ 0x6c7967656e657261, s[1] ^ 0x7465646279746573,
	}
	for _, w := range [...]uint64{binary.LittleEndian.Uint64(peer.Addr[:8]), binary.LittleEndian.Uint64(peer.Addr[8:]), 17<<56 | purpose} {
		h[3] ^= w
		h.rounds(2)
		h[0] ^= w
	}
	h[2] ^= 0xff
	h.rounds(4)
	return max(h[0]^h[1]^h[2]^h[3], 1)
}

type sipHash [4]uint64

func (h *sipHash) rounds(n int) {
	a, b, c, d := h[0], h[1], h[2], h[3]
	for range n {
		a += b
		b = bits.RotateLeft64(b, 13) ^ a
		a = bits.RotateLeft64(a, 32)
		c += d
		d = bits.RotateLeft64(d, 16) ^ c
		a += d
		d = bits.RotateLeft64(d, 21) ^ a
		c += b
		b = bits.RotateLeft64(b, 17) ^ c
		c = bits.RotateLeft64(c, 32)
	}
	*h = sipHash{a, b, c, d}
}
