// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// SACKLen is the size of the bitmap of our SACK packet in bytes.
const SACKLen = 16

// SACK is the bitmap behind the AETH of a SACK packet. BTH.PSN is cumulative:
// everything up to and including it has arrived. Bit i of the bitmap stands for
// the PSN that is i+1 beyond it.
//
//	0 bits 127..64(64)  8 bits 63..0(64)
type SACK []byte

// ParseSACK returns the view on the first 16 bytes of b, or ErrShort.
func ParseSACK(b []byte) (SACK, error) {
	if len(b) < SACKLen {
		return nil, ErrShort
	}
	return SACK(b[:SACKLen:SACKLen]), nil
}

// Bits returns the bitmap: lo holds bits 0..63, hi bits 64..127.
func (h SACK) Bits() (hi, lo uint64) {
	return binary.BigEndian.Uint64(h[0:8]), binary.BigEndian.Uint64(h[8:16])
}

// SetBits writes the bitmap.
func (h SACK) SetBits(hi, lo uint64) {
	binary.BigEndian.PutUint64(h[0:8], hi)
	binary.BigEndian.PutUint64(h[8:16], lo)
}

// Has reports bit i; false for i outside 0..127.
func (h SACK) Has(i int) bool {
	if i < 0 || i > 127 {
		return false
	}
	return h[15-i/8]>>(i%8)&1 != 0
}
