// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// OACKLen is the size of the body of OACK in bytes.
const OACKLen = 28

// OACK answers an OWRITE (S3.3) and tells what arrived around it: OACKs may be lost, and one may serve several
// packets. BTH.PSN is the PSN of the answered packet.
//
//	 0 message id(32)   4 cumulative PSN(24)  7 zero(8)   8 bitmap base(24)  11 zero(8)
//	12 bitmap(64)      20 window limit(16)   22 out-of-order count(16)      24 echo(32)
type OACK []byte

// OACKFields are the fields of an OACK.
type OACKFields struct {
	Message    uint32 // id, of the answered packet
	Cumulative PSN    // every packet up to and including it has arrived
	Base       PSN    // PSN of bit 0: that of the answered packet, rounded down to a multiple of 64
	Bitmap     uint64 // bit i: the packet Base+i has arrived
	Window     uint16 // packets after Cumulative that the target accepts
	OutOfOrder uint16 // packets that arrived beyond the first gap, at most 65535
	EchoUs     uint32 // T1 of the answered packet in microseconds of its sender's clock, 0: unknown
}

// ParseOACK returns the view on the first 28 bytes of b, or ErrShort.
func ParseOACK(b []byte) (OACK, error) {
	if len(b) < OACKLen {
		return nil, ErrShort
	}
	return OACK(b[:OACKLen:OACKLen]), nil
}

// Fields returns all fields.
func (h OACK) Fields() OACKFields {
	return OACKFields{
		Message:    binary.BigEndian.Uint32(h[0:4]),
		Cumulative: PSN(uint24(h[4:7])),
		Base:       PSN(uint24(h[8:11])),
		Bitmap:     binary.BigEndian.Uint64(h[12:20]),
		Window:     binary.BigEndian.Uint16(h[20:22]),
		OutOfOrder: binary.BigEndian.Uint16(h[22:24]),
		EchoUs:     binary.BigEndian.Uint32(h[24:28]),
	}
}

// Set writes the whole body. PSNs are cut to 24 bits.
func (h OACK) Set(f OACKFields) {
	binary.BigEndian.PutUint32(h[0:4], f.Message)
	binary.BigEndian.PutUint32(h[4:8], uint32(f.Cumulative)<<8)
	binary.BigEndian.PutUint32(h[8:12], uint32(f.Base)<<8)
	binary.BigEndian.PutUint64(h[12:20], f.Bitmap)
	binary.BigEndian.PutUint16(h[20:22], f.Window)
	binary.BigEndian.PutUint16(h[22:24], f.OutOfOrder)
	binary.BigEndian.PutUint32(h[24:28], f.EchoUs)
}
