// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"encoding/binary"
	"math"

	"github.com/softroce/softroce-xdp/rocev2"
)

// MaxForged is how many packets with a wrong tag an Opener accepts to check: 2^48. The
// probability that one of them is taken for genuine then is below 2^-70 (each guess: the blocks
// of a packet over 2^128). Later packets are refused with ErrExhausted.
const MaxForged = 1 << 48

// A key costs some microseconds to derive, and one packet of the next epoch makes an Opener derive one. A peer
// must pay for it by data: an Opener takes the next epoch if it has opened keyBlocks blocks for each new key so
// far, except for the first keysAhead ones. A Sealer whose caller does not rekey uses a key for MinBlocks, less
// one packet, at least. So nearly half of its packets may be lost.
const (
	keyBlocks = MinBlocks / 2
	keysAhead = 64
)

// Counters are packets of an Opener.
type Counters struct {
	Opened    uint64
	Short     uint64 // ErrShort
	Opcode    uint64 // ErrOpcode
	Pad       uint64 // ErrPad
	Epoch     uint64 // ErrEpoch
	Replay    uint64 // ErrReplay
	Old       uint64 // ErrOld
	Forged    uint64 // ErrForged
	Exhausted uint64 // ErrExhausted
}

// Refused is the number of all packets that were not opened.
func (c *Counters) Refused() uint64 {
	return c.Short + c.Opcode + c.Pad + c.Epoch + c.Replay + c.Old + c.Forged + c.Exhausted
}

func (c *Counters) add(e Error) {
	switch e {
	case ErrShort:
		c.Short++
	case ErrOpcode:
		c.Opcode++
	case ErrPad:
		c.Pad++
	case ErrEpoch:
		c.Epoch++
	case ErrReplay:
		c.Replay++
	case ErrOld:
		c.Old++
	case ErrForged:
		c.Forged++
	case ErrExhausted:
		c.Exhausted++
	}
}

// receiveKey is the key of an epoch with its replay window.
type receiveKey struct {
	key
	window window
}

// Opener decrypts and checks the packets that one end of a queue pair receives. It has the keys
// of three epochs: the previous, the present and the next one.
type Opener struct {
	_        noCopy
	previous *receiveKey // nil: none, or its time is over
	present  *receiveKey
	next     *receiveKey // nil after the last epoch
	secret   Secret      // secret of the epoch after next
	oldUntil int64       // ns: the end of the previous epoch
	credit   uint64      // blocks opened and not yet spent on keys; at most keysAhead*keyBlocks
	limits   Limits
	suite    Suite
	count    Counters
	scratch  associated
}

// NewOpener returns the Opener of epoch 0.
func NewOpener(suite Suite, secret Secret, l Limits) (*Opener, error) {
	l, err := l.complete()
	if err != nil {
		return nil, err
	}
	o := &Opener{suite: suite, limits: l, credit: keysAhead * keyBlocks, present: &receiveKey{}, next: &receiveKey{}}
	o.present.key, o.secret, err = derive(suite, &secret, 0)
	if err == nil {
		o.next.key, o.secret, err = derive(suite, &o.secret, 1)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Epoch is the number of the present key: the highest of a packet that was opened.
func (o *Opener) Epoch() uint32 { return o.present.epoch }

// Counters returns the numbers of packets so far.
func (o *Opener) Counters() Counters { return o.count }

// Open checks and decrypts a packet in place and returns the plain data, which lies in body.
// body is everything from the BTH to the tag, without pad. now is the time in nanoseconds of any
// clock that never goes back.
//
// Errors: ErrShort, ErrOpcode, ErrEpoch, ErrReplay, ErrOld, ErrForged, ErrExhausted. The packet
// must be dropped then; after ErrForged its payload is overwritten. Only a packet that was
// opened changes windows and epochs. It allocates only at the first packet of an epoch.
func (o *Opener) Open(now int64, body []byte) ([]byte, error) {
	plain, err := o.open(now, body)
	if err == nil {
		o.count.Opened++
	} else if e, ok := err.(Error); ok {
		o.count.add(e)
	}
	return plain, err
}

// OpenPacket opens a packet whose ICRC is right, and cuts its view, so that Payload returns the
// plain data. Errors: those of Open, and ErrPad.
func (o *Opener) OpenPacket(now int64, p *rocev2.Packet) error {
	for _, b := range p.Pad() {
		if b != 0 {
			o.count.add(ErrPad)
			return ErrPad
		}
	}
	if _, err := o.Open(now, p.Body()); err != nil {
		return err
	}
	p.CutPayload(HeadLen, TagLen)
	return nil
}

func (o *Opener) open(now int64, body []byte) ([]byte, error) {
	head, err := headers(body)
	if err != nil {
		return nil, err
	}
	k, err := o.find(now, binary.BigEndian.Uint32(body[head:]))
	if err != nil {
		return nil, err
	}
	counter := binary.BigEndian.Uint64(body[head+4:])
	if err := k.window.check(counter); err != nil {
		return nil, err
	}
	if o.count.Forged >= MaxForged {
		return nil, ErrExhausted
	}
	a := &o.scratch
	k.putNonce(&a.nonce, counter)
	sealed := body[head+HeadLen:]
	plain, err := k.aead.Open(sealed[:0], a.nonce[:], sealed, a.set(body, head))
	if err != nil {
		return nil, ErrForged
	}
	k.window.accept(counter)
	o.credit = min(o.credit+blocks(len(plain)), keysAhead*keyBlocks)
	if k == o.next {
		if err := o.advance(now); err != nil {
			return nil, err
		}
	}
	return plain, nil
}

// find returns the key of an epoch.
func (o *Opener) find(now int64, epoch uint32) (*receiveKey, error) {
	if o.previous != nil && now >= o.oldUntil {
		o.previous = nil
	}
	switch {
	case epoch == o.present.epoch:
		return o.present, nil
	case o.next != nil && epoch == o.next.epoch && o.credit >= keyBlocks:
		return o.next, nil
	case o.previous != nil && epoch == o.previous.epoch:
		return o.previous, nil
	}
	return nil, ErrEpoch
}

// advance makes the next epoch the present one, and derives the one after it. Deriving it now
// makes the first packet of an epoch as fast as the others to check, forged or not.
func (o *Opener) advance(now int64) error {
	o.previous, o.present, o.next = o.present, o.next, nil
	o.oldUntil = now + o.limits.Overlap
	o.credit -= keyBlocks
	if o.present.epoch == math.MaxUint32 {
		return nil
	}
	k, secret, err := derive(o.suite, &o.secret, o.present.epoch+1)
	if err != nil {
		return err
	}
	o.next, o.secret = &receiveKey{key: k}, secret
	return nil
}
