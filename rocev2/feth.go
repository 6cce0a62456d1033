// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// FETHLen is the size of the flush extended transport header (IBTA 1.5 and later).
const FETHLen = 4

// FETH says what a FLUSH must make durable or visible; it precedes the RETH.
//
//	0 reserved(26) selectivity(2) placement type(4)
type FETH []byte

// ParseFETH returns the view on the first 4 bytes of b, or ErrShort.
func ParseFETH(b []byte) (FETH, error) {
	if len(b) < FETHLen {
		return nil, ErrShort
	}
	return FETH(b[:FETHLen:FETHLen]), nil
}

// Placement is the placement type bits: 1 global visibility, 2 persistence.
func (h FETH) Placement() uint8 { return h[3] & 0x0F }

// Selectivity is 0 for the range of the RETH, 1 for the whole memory region.
func (h FETH) Selectivity() uint8 { return h[3] >> 4 & 3 }

// Set writes both fields and clears the reserved bits.
func (h FETH) Set(placement, selectivity uint8) {
	binary.BigEndian.PutUint32(h[0:4], uint32(selectivity&3)<<4|uint32(placement&0x0F))
}
