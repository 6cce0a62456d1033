// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// RequestLen and WelcomeLen are lengths in bytes.
const (
	RequestLen = 48
	WelcomeLen = 56
)

// nameLen is the room for a name: padded with zeros.
const nameLen = 20

// magic begins private data: the two letters of the ExID of the timestamp option.
const magic = 0x5352

// Request is the private data of a connection request.
type Request struct {
	Kind   Kind
	Name   string        // of the node, up to 20 bytes; empty for KindStatus
	Token  uint64        // of an earlier Welcome, or 0
	Period time.Duration // of the node
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

// Welcome is the private data of the acceptance of KindJoin.
type Welcome struct {
	Node       uint32
	Token      uint64        // for a Request that resumes the lease
	Generation uint64        // of the data: another one means that all data is lost
	SlabBytes  uint64        // length of a slab
	Slabs      uint32        // of the pool
	Resumed    bool          // the node has the slabs that it had
	Grace      time.Duration // how long the node has to return slabs
	Hold       time.Duration // how long the lease is kept after the connection has ended
}

// AppendBinary appends WelcomeLen bytes.
func (w Welcome) AppendBinary(b []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint16(b, magic)
	b = append(b, Version, byte(KindWelcome))
	b = binary.BigEndian.AppendUint32(b, w.Node)
	b = binary.BigEndian.AppendUint64(b, w.Token)
	b = binary.BigEndian.AppendUint64(b, w.Generation)
	b = binary.BigEndian.AppendUint64(b, w.SlabBytes)
	b = binary.BigEndian.AppendUint32(b, w.Slabs)
	flags := uint32(0)
	if w.Resumed {
		flags = 1
	}
	b = binary.BigEndian.AppendUint32(b, flags)
	b = binary.BigEndian.AppendUint64(b, uint64(w.Grace))
	return binary.BigEndian.AppendUint64(b, uint64(w.Hold)), nil
}

// ParseWelcome reads a Welcome. Bytes behind it are ignored.
func ParseWelcome(b []byte) (w Welcome, err error) {
	if err := checkPrivate(b, WelcomeLen); err != nil {
		return w, err
	}
	w = Welcome{
		Node: binary.BigEndian.Uint32(b[4:]), Token: binary.BigEndian.Uint64(b[8:]), Generation: binary.BigEndian.Uint64(b[16:]),
		SlabBytes: binary.BigEndian.Uint64(b[24:]), Slabs: binary.BigEndian.Uint32(b[32:]), Resumed: b[39]&1 != 0,
		Grace: time.Duration(binary.BigEndian.Uint64(b[40:])), Hold: time.Duration(binary.BigEndian.Uint64(b[48:])),
	}
	if Kind(b[3]) != KindWelcome || w.SlabBytes == 0 || w.SlabBytes > 1<<32-1 || w.Grace < 0 || w.Hold < 0 {
		return Welcome{}, fmt.Errorf("%w: kind %d, slabs of %d bytes", ErrFormat, b[3], w.SlabBytes)
	}
	return w, nil
}
