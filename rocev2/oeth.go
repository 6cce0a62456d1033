// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// OETHLen is the size of the out-of-order extended transport header in bytes.
const OETHLen = 24

// OETHVersion is the version of the out-of-order packets 0xC8..0xCA.
const OETHVersion = 1

// Flags of the OETH, 4 bits.
const (
	OFirst     uint8 = 1 << iota // first packet of its message
	OLast                        // last packet of its message
	ORetry                       // retransmission, or the response to one
	OSolicited                   // the notification of the message is solicited
)

// OETH says where one packet of OWRITE, OREAD_REQ or OREAD_RESP goes, whatever arrived
// before it (S3.2).
//
//	0 version(4) flags(4)  1 packet index(24)  4 message id(32)  8 VA(64)  16 R_Key(32)  20 length(32)
type OETH []byte

// OETHFields are the fields of an OETH, without the version.
type OETHFields struct {
	Flags   uint8  // OFirst, OLast, ORetry, OSolicited
	Index   uint32 // index of the packet in its message, 24 bits
	Message uint32 // id, unique among the outstanding messages of a queue pair
	VA      uint64 // address of this packet's data at the target
	RKey    uint32
	Length  uint32 // bytes of data of this packet; OREAD_REQ: of its response
}

// ParseOETH returns the view on the first 24 bytes of b, or ErrShort. It checks no
// field: look at Version first.
func ParseOETH(b []byte) (OETH, error) {
	if len(b) < OETHLen {
		return nil, ErrShort
	}
	return OETH(b[:OETHLen:OETHLen]), nil
}

// Version is bits 7:4 of byte 0; only OETHVersion is defined.
func (h OETH) Version() uint8 { return h[0] >> 4 }

// Fields returns all other fields.
func (h OETH) Fields() OETHFields {
	return OETHFields{
		Flags:   h[0] & 0x0F,
		Index:   uint24(h[1:4]),
		Message: binary.BigEndian.Uint32(h[4:8]),
		VA:      binary.BigEndian.Uint64(h[8:16]),
		RKey:    binary.BigEndian.Uint32(h[16:20]),
		Length:  binary.BigEndian.Uint32(h[20:24]),
	}
}

// Set writes the whole header, with OETHVersion. Index is cut to 24 bits.
func (h OETH) Set(f OETHFields) {
	h[0] = OETHVersion<<4 | f.Flags&0x0F
	putUint24(h[1:4], f.Index)
	binary.BigEndian.PutUint32(h[4:8], f.Message)
	binary.BigEndian.PutUint64(h[8:16], f.VA)
	binary.BigEndian.PutUint32(h[16:20], f.RKey)
	binary.BigEndian.PutUint32(h[20:24], f.Length)
}
