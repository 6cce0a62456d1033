// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/softroce/softroce-xdp/rocev2"
)

// MaxBlocks is how many blocks of 16 bytes one key encrypts at most: 2^34, which is 256 GiB. An
// attacker then distinguishes the ciphertext from random bytes with a probability of at most
// 2^-61 (the square of the blocks over 2^129). A counter is below 2^34 therefore and never wraps.
const MaxBlocks = 1 << 34

// Limits shorten the life of keys. Zero values mean the defaults.
type Limits struct {
	// MaxBlocks is the number of blocks of 16 bytes after which a Sealer uses the next epoch,
	// up to the constant, which is the default. A packet of n bytes counts as n/16, rounded up,
	// and one more. It must be more than the sender has outstanding: the loss of all packets of
	// an epoch ends the connection.
	MaxBlocks uint64
	// Overlap is how long an Opener accepts the previous epoch after the first packet of the
	// present one, in nanoseconds. It should be longer than a packet stays in the network.
	// Default 10 s.
	Overlap int64
}

func (l Limits) complete() (Limits, error) {
	if l.MaxBlocks == 0 {
		l.MaxBlocks = MaxBlocks
	}
	if l.Overlap == 0 {
		l.Overlap = 10e9
	}
	if l.MaxBlocks > MaxBlocks || l.Overlap < 0 {
		return l, fmt.Errorf("seal: limits %+v: MaxBlocks is at most %d, Overlap is not negative", l, uint64(MaxBlocks))
	}
	return l, nil
}

// noCopy lets go vet find copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Sealer encrypts the packets that one end of a queue pair sends.
type Sealer struct {
	_       noCopy
	key     key
	next    Secret
	counter uint64 // of the last packet; the first one has 1
	blocks  uint64 // encrypted under this key
	limits  Limits
	suite   Suite
	scratch associated
}

// NewSealer returns the Sealer of epoch 0. A secret must be given to one Sealer only.
func NewSealer(suite Suite, secret Secret, l Limits) (*Sealer, error) {
	l, err := l.complete()
	if err != nil {
		return nil, err
	}
	s := &Sealer{suite: suite, limits: l}
	s.key, s.next, err = derive(suite, &secret, 0)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Epoch is the number of the key, from 0 on.
func (s *Sealer) Epoch() uint32 { return s.key.epoch }

// Rekey makes the next packet the first one of the next epoch. Seal calls it when the limit is
// reached. The receiver needs one packet of an epoch before it accepts the next but one: a
// caller must not rekey again before the peer has acknowledged one.
//
// Error: ErrExhausted. The Sealer is unchanged then.
func (s *Sealer) Rekey() error {
	if s.key.epoch == math.MaxUint32 {
		return ErrExhausted
	}
	k, next, err := derive(s.suite, &s.next, s.key.epoch+1)
	if err != nil {
		return err
	}
	s.key, s.next, s.counter, s.blocks = k, next, 0, 0
	return nil
}

// Seal encrypts a packet in place. body is everything from the BTH to the end of the payload,
// without pad: the headers of the opcode, 12 bytes for epoch and counter, the plain data, 16
// bytes for the tag. The pad count must be right already; as Overhead is a multiple of 4, the
// plain data has the same. Seal must come before the ICRC, and once for each transmission: a
// packet that is sent again is built from plain data and sealed again.
//
// It allocates only at the first packet of an epoch. Errors: ErrShort, ErrOpcode, ErrExhausted;
// body is unchanged then and must not be sent.
func (s *Sealer) Seal(body []byte) error {
	head, err := headers(body)
	if err != nil {
		return err
	}
	data := body[head+HeadLen : len(body)-TagLen]
	need := blocks(len(data))
	if s.blocks+need > s.limits.MaxBlocks && s.blocks != 0 || s.counter == math.MaxUint64 {
		if err := s.Rekey(); err != nil {
			return err
		}
	}
	s.counter++
	s.blocks += need
	binary.BigEndian.PutUint32(body[head:], s.key.epoch)
	binary.BigEndian.PutUint64(body[head+4:], s.counter)
	a := &s.scratch
	s.key.putNonce(&a.nonce, s.counter)
	s.key.aead.Seal(data[:0], a.nonce[:], data, a.set(body, head))
	return nil
}

// SealDatagram seals the IP datagram that Datagram.Begin has started in b, and whose plain data
// is in Plain of the payload. Datagram.Seal must follow. Errors: those of Seal and
// rocev2.ParseIP.
func (s *Sealer) SealDatagram(b []byte) error {
	p, err := rocev2.ParseIP(b)
	if err != nil {
		return err
	}
	return s.Seal(p.Body()) // which shares the bytes of b
}

// SealBuilt is Seal for the packet that d has begun in b (Datagram.Begin), with n bytes of payload, Overhead
// included. Its IP length may count a stamp option, which is behind the packet.
func (s *Sealer) SealBuilt(d *rocev2.Datagram, b []byte, n int) error {
	headers := rocev2.BTHLen + int(d.Opcode.Info().ExtLen)
	bth := d.Len(0) - rocev2.ICRCLen - headers
	return s.Seal(b[bth : bth+headers+n])
}
