// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// BTHLen is the size of the base transport header in bytes (IBTA 9.2).
const BTHLen = 12

// DefaultPKey is the full-membership partition key that RoCEv2 uses.
const DefaultPKey = 0xFFFF

// ControlQPN is the destination of our HELLO packets: no QP has this number.
const ControlQPN = 0xFFFFFE

// BTH is the base transport header.
//
//	0 opcode(8)  1 SE(1) M(1) PadCnt(2) TVer(4)  2 P_Key(16)
//	4 FECN(1) BECN(1) reserved(6)  5 DestQP(24)
//	8 AckReq(1) reserved(7)  9 PSN(24)
//
// The whole byte 4 is outside the ICRC (annex A17).
type BTH []byte

// ParseBTH returns the view on the first 12 bytes of b, or ErrShort.
func ParseBTH(b []byte) (BTH, error) {
	if len(b) < BTHLen {
		return nil, ErrShort
	}
	return BTH(b[:BTHLen:BTHLen]), nil
}

// Opcode returns byte 0.
func (h BTH) Opcode() Opcode { return Opcode(h[0]) }

// Solicited is the SE bit: the responder raises a solicited event.
func (h BTH) Solicited() bool { return h[1]&0x80 != 0 }

// MigReq is the migration bit. It is informative: never judge it on receive.
func (h BTH) MigReq() bool { return h[1]&0x40 != 0 }

// PadCount is the number of pad bytes, 0..3, between payload and ICRC.
func (h BTH) PadCount() int { return int(h[1] >> 4 & 3) }

// Version is the transport header version; 0 is the only one.
func (h BTH) Version() uint8 { return h[1] & 0x0F }

// PKey is the partition key.
func (h BTH) PKey() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// FECN is the forward congestion bit.
func (h BTH) FECN() bool { return h[4]&0x80 != 0 }

// BECN is the backward congestion bit; a CNP carries it.
func (h BTH) BECN() bool { return h[4]&0x40 != 0 }

// DestQP is the destination queue pair number, 24 bits.
func (h BTH) DestQP() uint32 { return uint24(h[5:8]) }

// AckReq asks the responder for an acknowledgement.
func (h BTH) AckReq() bool { return h[8]&0x80 != 0 }

// PSN is the packet sequence number, 24 bits.
func (h BTH) PSN() PSN { return PSN(uint24(h[9:12])) }

// SetOpcode writes byte 0.
func (h BTH) SetOpcode(op Opcode) { h[0] = byte(op) }

// SetSolicited writes the SE bit.
func (h BTH) SetSolicited(on bool) { setBit(&h[1], 0x80, on) }

// SetMigReq writes the migration bit.
func (h BTH) SetMigReq(on bool) { setBit(&h[1], 0x40, on) }

// SetPadCount writes the pad count; only its low two bits are used.
func (h BTH) SetPadCount(n int) { h[1] = h[1]&^0x30 | byte(n&3)<<4 }

// SetPKey writes the partition key.
func (h BTH) SetPKey(k uint16) { binary.BigEndian.PutUint16(h[2:4], k) }

// SetFECN writes the forward congestion bit.
func (h BTH) SetFECN(on bool) { setBit(&h[4], 0x80, on) }

// SetBECN writes the backward congestion bit.
func (h BTH) SetBECN(on bool) { setBit(&h[4], 0x40, on) }

// SetDestQP writes the low 24 bits of qpn.
func (h BTH) SetDestQP(qpn uint32) { putUint24(h[5:8], qpn) }

// SetAckReq writes the acknowledge request bit.
func (h BTH) SetAckReq(on bool) { setBit(&h[8], 0x80, on) }

// SetPSN writes the low 24 bits of psn.
func (h BTH) SetPSN(psn PSN) { putUint24(h[9:12], uint32(psn)) }

func uint24(b []byte) uint32 {
	_ = b[2]
	return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
}

func putUint24(b []byte, v uint32) {
	_ = b[2]
	b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v)
}

func setBit(b *byte, mask byte, on bool) {
	if on {
		*b |= mask
	} else {
		*b &^= mask
	}
}
