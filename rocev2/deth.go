// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// DETHLen is the size of the datagram extended transport header (IBTA 9.3).
const DETHLen = 8

// DETH follows the BTH of every UD packet.
//
//	0 Q_Key(32)  4 reserved(8)  5 SrcQP(24)
type DETH []byte

// ParseDETH returns the view on the first 8 bytes of b, or ErrShort.
func ParseDETH(b []byte) (DETH, error) {
	if len(b) < DETHLen {
		return nil, ErrShort
	}
	return DETH(b[:DETHLen:DETHLen]), nil
}

// QKey is the queue key; 0x80010000 for QP1 (CM).
func (h DETH) QKey() uint32 { return binary.BigEndian.Uint32(h[0:4]) }

// SrcQP is the sender's queue pair number, 24 bits.
func (h DETH) SrcQP() uint32 { return uint24(h[5:8]) }

// SetQKey writes the queue key.
func (h DETH) SetQKey(k uint32) { binary.BigEndian.PutUint32(h[0:4], k) }

// SetSrcQP writes the low 24 bits of qpn.
func (h DETH) SetSrcQP(qpn uint32) { putUint24(h[5:8], qpn) }
