// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
)

// Suite is a cipher with its key length. The numbers are on the wire, in the offer.
type Suite uint8

// The suites.
const (
	AES128GCM Suite = 1
	AES256GCM Suite = 2
)

// keyLen is the length of the AES key in bytes, 0 for an unknown suite.
func (s Suite) keyLen() int {
	switch s {
	case AES128GCM:
		return 16
	case AES256GCM:
		return 32
	}
	return 0
}

// String is the name of the suite.
func (s Suite) String() string {
	switch s {
	case AES128GCM:
		return "AES-128-GCM"
	case AES256GCM:
		return "AES-256-GCM"
	}
	return fmt.Sprintf("suite %d", uint8(s))
}

// Secret is what the keys of one direction and epoch are derived from. It never encrypts
// anything itself.
type Secret [32]byte

// Format implements fmt.Formatter: a secret is never printed.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(secret)") }

// Keys are the result of a handshake at one end.
type Keys struct {
	Suite   Suite
	Send    Secret // secret of the packets that this end sends
	Receive Secret // secret of the packets that this end receives
}

// Lengths of the parts that sealing adds to a payload, in bytes.
const (
	HeadLen  = 12 // epoch and counter
	TagLen   = 16
	Overhead = HeadLen + TagLen

	saltLen = 4
)

// key is the cipher of one epoch.
type key struct {
	aead  cipher.AEAD
	epoch uint32
	salt  [saltLen]byte
}

// derive returns the key of an epoch, and the secret of the next one: HKDF-Expand
// (RFC 5869) with SHA-256, as QUIC updates its keys (RFC 9001 section 6.1).
func derive(suite Suite, secret *Secret, epoch uint32) (k key, next Secret, err error) {
	n := suite.keyLen()
	if n == 0 {
		return key{}, Secret{}, fmt.Errorf("seal: unknown %v: use AES128GCM or AES256GCM", suite)
	}
	k.epoch = epoch
	raw, err := expand(secret, fmt.Sprintf("softroce seal 1 key %d", suite), n)
	if err != nil {
		return key{}, Secret{}, err
	}
	salt, err := expand(secret, "softroce seal 1 salt", saltLen)
	if err != nil {
		return key{}, Secret{}, err
	}
	following, err := expand(secret, "softroce seal 1 next", len(next))
	if err != nil {
		return key{}, Secret{}, err
	}
	copy(k.salt[:], salt)
	copy(next[:], following)
	block, err := aes.NewCipher(raw)
	clear(raw)
	if err != nil {
		return key{}, Secret{}, err
	}
	k.aead, err = cipher.NewGCM(block)
	return k, next, err
}

func expand(secret *Secret, label string, n int) ([]byte, error) {
	return hkdf.Expand(sha256.New, secret[:], label, n)
}

// putNonce writes salt and counter, 96 bits.
func (k *key) putNonce(nonce *[saltLen + 8]byte, counter uint64) {
	copy(nonce[:], k.salt[:])
	binary.BigEndian.PutUint64(nonce[saltLen:], counter)
}
