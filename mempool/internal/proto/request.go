// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// RequestLen and OfferLen are lengths in bytes.
const (
	RequestLen = 48
	OfferLen   = 16
)

// nameLen is the room for a name: padded with zeros.
const nameLen = 20

// magic begins private data: the two letters of the ExID of the timestamp option.
const magic = 0x5352

// Request is the private data of a connection request.
type Request struct {
	Kind   Kind
	Name   string        // name of the node, up to 20 bytes; empty for KindStatus
	Token  uint64        // KindJoin: of an earlier Welcome, to have the same lease again; 0: of none
	Period time.Duration // period of the node
	Demand uint64        // bytes for the first period
}

// AppendBinary appends RequestLen bytes.
func (r Request) AppendBinary(b []byte) ([]byte, error) {
	if len(r.Name) > nameLen || r.Period < 0 {
		return b, fmt.Errorf("proto: a name of %d bytes and a period of %v: at most %d bytes, and a positive period", len(r.Name), r.Period, nameLen)
	}
	b = binary.BigEndian.AppendUint16(b, magic)
	b = append(b, Version, byte(r.Kind))
	b = append(b, r.Name...)
	b = append(b, make([]byte, nameLen-len(r.Name))...)
	b = binary.BigEndian.AppendUint64(b, r.Token)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Period))
	return binary.BigEndian.AppendUint64(b, r.Demand), nil
}

// ParseRequest reads a Request. Bytes behind it are ignored.
func ParseRequest(b []byte) (r Request, err error) {
	if err := checkPrivate(b, RequestLen); err != nil {
		return r, err
	}
	r = Request{
		Kind: Kind(b[3]), Name: string(bytes.TrimRight(b[4:4+nameLen], "\x00")), Token: binary.BigEndian.Uint64(b[24:]),
		Period: time.Duration(binary.BigEndian.Uint64(b[32:])), Demand: binary.BigEndian.Uint64(b[40:]),
	}
	if r.Kind < KindJoin || r.Kind > KindStatus || r.Period < 0 {
		return Request{}, fmt.Errorf("%w: kind %d, period %v", ErrFormat, r.Kind, r.Period)
	}
	return r, nil
}

func checkPrivate(b []byte, length int) error {
	switch {
	case len(b) < length:
		return fmt.Errorf("%w: %d bytes of private data instead of %d", ErrFormat, len(b), length)
	case binary.BigEndian.Uint16(b) != magic:
		return fmt.Errorf("%w: private data begins with %x", ErrFormat, b[:2])
	case b[2] != Version:
		return fmt.Errorf("%w: version %d", ErrFormat, b[2])
	}
	return nil
}

// Offer is the private data of the acceptance of a Request.
type Offer struct {
	Challenge uint64 // random, for Begin
}

// AppendBinary appends OfferLen bytes.
func (o Offer) AppendBinary(b []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint16(b, magic)
	b = append(b, Version, byte(KindOffer), 0, 0, 0, 0)
	return binary.BigEndian.AppendUint64(b, o.Challenge), nil
}

// ParseOffer reads an Offer. Bytes behind it are ignored.
func ParseOffer(b []byte) (o Offer, err error) {
	if err := checkPrivate(b, OfferLen); err != nil {
		return o, err
	}
	if Kind(b[3]) != KindOffer {
		return o, fmt.Errorf("%w: kind %d", ErrFormat, b[3])
	}
	return Offer{Challenge: binary.BigEndian.Uint64(b[8:])}, nil
}
