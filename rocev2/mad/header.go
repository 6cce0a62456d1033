// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"encoding/binary"
	"fmt"
)

const (
	// Len is the size of every MAD in bytes (IBTA 13.4.2).
	Len = 256
	// HeaderLen is the size of the common MAD header in bytes.
	HeaderLen = 24

	// QPN is the queue pair that MADs are sent from and to, the general service interface.
	QPN = 1
	// QKey is the queue key of QPN (IBTA 10.2.5).
	QKey = 0x80010000
)

const (
	baseVersion  = 1
	classCM      = 0x07 // communication management
	classVersion = 2
	methodSend   = 0x03
)

// Attr is the attribute ID of a MAD: which message of the communication manager it is (IBTA
// table 104).
type Attr uint16

// The messages.
const (
	AttrREQ     Attr = 0x10
	AttrMRA     Attr = 0x11
	AttrREJ     Attr = 0x12
	AttrREP     Attr = 0x13
	AttrRTU     Attr = 0x14
	AttrDREQ    Attr = 0x15
	AttrDREP    Attr = 0x16
	AttrSIDRREQ Attr = 0x17
	AttrSIDRREP Attr = 0x18
)

var attrNames = [...]string{"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP"}

// String returns the name of the message, as "REQ".
func (a Attr) String() string {
	if a >= AttrREQ && a <= AttrSIDRREP {
		return attrNames[a-AttrREQ]
	}
	return fmt.Sprintf("attribute %#x", uint16(a))
}

// Header is the view on a whole MAD; its methods are the fields of the common header (IBTA
// 13.4.3).
//
//	0 base version(8)  1 class(8)  2 class version(8)  3 method(8)  4 status(16)
//	6 class specific(16)  8 transaction ID(64)  16 attribute ID(16)  18 reserved(16)
//	20 attribute modifier(32)
type Header []byte

// Parse returns the view on a message of the communication manager. Errors: ErrLength,
// ErrVersion, ErrClass, ErrMethod. Its Attr may be unknown.
func Parse(b []byte) (Header, error) {
	switch {
	case len(b) != Len:
		return nil, ErrLength
	case b[0] != baseVersion:
		return nil, ErrVersion
	case b[1] != classCM || b[2] != classVersion:
		return nil, ErrClass
	case b[3] != methodSend:
		return nil, ErrMethod
	}
	return Header(b[:Len:Len]), nil
}

// parse is Parse for one message.
func parse(b []byte, want Attr) (Header, error) {
	h, err := Parse(b)
	if err != nil {
		return nil, err
	}
	if h.Attr() != want {
		return nil, ErrAttr
	}
	return h, nil
}

// start makes a message of zeros with its header. The transaction ID joins a request and its
// answers; nothing depends on it.
func start(a Attr, tid uint64) Header {
	h := make(Header, Len)
	h[0], h[1], h[2], h[3] = baseVersion, classCM, classVersion, methodSend
	binary.BigEndian.PutUint64(h[8:], tid)
	binary.BigEndian.PutUint16(h[16:], uint16(a))
	return h
}

// Attr is the message.
func (h Header) Attr() Attr { return Attr(h.u16(16)) }

// TID is the transaction ID, which an answer takes from its request.
func (h Header) TID() uint64 { return h.u64(8) }

// Status is 0 in all messages of the communication manager.
func (h Header) Status() uint16 { return h.u16(4) }

// Fields of the message are given by their offset in the MAD.

func (h Header) u8(at int) uint8         { return h[at] }
func (h Header) u16(at int) uint16       { return binary.BigEndian.Uint16(h[at:]) }
func (h Header) u32(at int) uint32       { return binary.BigEndian.Uint32(h[at:]) }
func (h Header) u64(at int) uint64       { return binary.BigEndian.Uint64(h[at:]) }
func (h Header) put8(at int, v uint8)    { h[at] = v }
func (h Header) put16(at int, v uint16)  { binary.BigEndian.PutUint16(h[at:], v) }
func (h Header) put32(at int, v uint32)  { binary.BigEndian.PutUint32(h[at:], v) }
func (h Header) put64(at int, v uint64)  { binary.BigEndian.PutUint64(h[at:], v) }
func (h Header) u24(at int) uint32       { return h.u32(at) >> 8 }
func (h Header) bits(at, lo, n int) byte { return h[at] >> lo & (1<<n - 1) }

// put24 writes three bytes and leaves the fourth alone.
func (h Header) put24(at int, v uint32) { h.put32(at, v<<8|uint32(h[at+3])) }

// putBits writes n bits from bit lo (0 is the least significant) of a byte.
func (h Header) putBits(at, lo, n int, v byte) {
	mask := byte(1<<n-1) << lo
	h[at] = h[at]&^mask | v<<lo&mask
}

// private is the area of a message that its consumers fill. They agree on what is in it; the
// message does not tell how much of it is used.
func (h Header) private(at, n int) []byte { return h[at : at+n : at+n] }

// putPrivate fills an area and clears the rest of it.
func (h Header) putPrivate(at, n int, p []byte) error {
	if len(p) > n {
		return ErrPrivate
	}
	clear(h[at+copy(h[at:at+n], p) : at+n])
	return nil
}

// Pair is the part that REP, RTU, REJ, MRA, DREQ and DREP share: the communication IDs of both
// ends behind the MAD header. The sender's is first.
type Pair struct{ Header }

func startPair(a Attr, tid uint64, local, remote uint32) Pair {
	h := start(a, tid)
	h.put32(24, local)
	h.put32(28, remote)
	return Pair{h}
}

// LocalCommID is the communication ID of the sender; 0 in a REJ of a message that led nowhere.
func (p Pair) LocalCommID() uint32 { return p.u32(24) }

// RemoteCommID is the communication ID of the receiver; 0 in a REJ whose sender does not know it.
func (p Pair) RemoteCommID() uint32 { return p.u32(28) }
