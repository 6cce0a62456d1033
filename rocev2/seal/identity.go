// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/flynn/noise"
)

// PublicKey is the static key by which other hosts know a host (X25519, RFC 7748).
type PublicKey [32]byte

// ID is the number by which an offer names the key of its sender: the first 32 bits of its
// SHA-256. Two keys may have the same.
func (k PublicKey) ID() uint32 {
	sum := sha256.Sum256(k[:])
	return binary.BigEndian.Uint32(sum[:])
}

// String is the key in base64, for configuration files.
func (k PublicKey) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// ParsePublicKey reads what String has written.
func ParsePublicKey(s string) (k PublicKey, err error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) != len(k) {
		return k, fmt.Errorf("seal: public key %q: want 32 bytes in base64, 44 characters", s)
	}
	return PublicKey(b), nil
}

// Identity is the static key pair of a host.
type Identity struct {
	pair noise.DHKey
}

// NewIdentity creates a random key pair.
func NewIdentity() (*Identity, error) {
	pair, err := noise.DH25519.GenerateKeypair(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("seal: create a key pair: %w", err)
	}
	return &Identity{pair}, nil
}

// IdentityOf returns the key pair of a stored private key of 32 bytes.
func IdentityOf(private []byte) (*Identity, error) {
	pair, err := keyPair(private)
	if err != nil {
		return nil, err
	}
	return &Identity{pair}, nil
}

// Format implements fmt.Formatter: the public key is printed, never the private one.
func (i *Identity) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, i.Public().String()) }

// Public is the half that other hosts need.
func (i *Identity) Public() PublicKey { return PublicKey(i.pair.Public) }

// Private is the half to store, readable by root only.
func (i *Identity) Private() []byte { return append([]byte(nil), i.pair.Private...) }
