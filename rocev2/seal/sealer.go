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

// MinBlocks is the lowest Limits.MaxBlocks: 64 KB. An Opener refuses epochs that follow each other faster.
const MinBlocks = 4096

// Limits shorten the life of keys. Zero values mean the defaults.
type Limits struct {
	// MaxBlocks is the number of blocks of 16 bytes after which a Sealer uses the next epoch,
	// from MinBlocks to the constant, which is the default. A packet of n bytes counts as n/16, rounded up,
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
	if l.MaxBlocks < MinBlocks || l.MaxBlocks > MaxBlocks || l.Overlap < 0 {
		return l, fmt.Errorf("seal: limits %+v: choose MaxBlocks from %d to %d, or 0 for the default, and an Overlap that is not negative",
			l, MinBlocks, uint64(MaxBlocks))
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
	counter uint64 // counter of the last packet; the first one has 1
	blocks  uint64 // encrypted under this key
	limits  Limits
	suite   Suite
	scratch associated
	built   Built
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
// caller must not rekey again before the peer has acknowledged one. The receiver also needs data for
// each new epoch: after 64 calls with less than 32 KB opened for each, its Opener refuses the next epoch
// with ErrEpoch.
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
	return s.seal(body, head, body[head+HeadLen:len(body)-TagLen])
}

// seal is Seal for plain data that is not in the body, or exactly in its place there. head is the length of
// the headers.
//
// Others may change plain meanwhile: AES-GCM authenticates the ciphertext and reads each byte of plain once.
func (s *Sealer) seal(body []byte, head int, plain []byte) error {
	data := body[head+HeadLen : len(body)-TagLen]
	if len(plain) != len(data) {
		return ErrShort
	}
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
	s.key.aead.Seal(data[:0], a.nonce[:], plain, a.set(body, head))
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

// Built is a packet whose plain data is yet to come. It implements mem.Transform.
type Built struct {
	s    *Sealer
	body []byte
	err  error
}

// Built returns the packet that d has begun in b (Datagram.Begin), with n bytes of payload, Overhead included.
// Its IP length may count a stamp option, which is behind the packet. The result is valid until the next call.
func (s *Sealer) Built(d *rocev2.Datagram, b []byte, n int) *Built {
	headers := rocev2.BTHLen + int(d.Opcode.Info().ExtLen)
	bth := d.Len(0) - rocev2.ICRCLen - headers
	s.built = Built{s, b[bth : bth+headers+n], ErrNoData}
	return &s.built
}

// Put seals the packet with src as plain data, which is Plain of the place of the payload, or does not
// overlap the packet. Others may change src meanwhile: the tag is that of the ciphertext.
func (p *Built) Put(_, src []byte) {
	head, err := headers(p.body)
	if err == nil {
		err = p.s.seal(p.body, head, src)
	}
	p.err = err
}

// Err is nil when the packet was sealed. Otherwise it must not be sent: ErrNoData, or an error of Seal.
func (p *Built) Err() error { return p.err }
