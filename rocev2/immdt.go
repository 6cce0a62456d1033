// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// ImmDtLen is the size of the immediate data (IBTA 9.3).
const ImmDtLen = 4

// ImmDt is four bytes for the receiver's completion.
//
//	0 immediate data(32)
type ImmDt []byte

// ParseImmDt returns the view on the first 4 bytes of b, or ErrShort.
func ParseImmDt(b []byte) (ImmDt, error) {
	if len(b) < ImmDtLen {
		return nil, ErrShort
	}
	return ImmDt(b[:ImmDtLen:ImmDtLen]), nil
}

// Value reads the four bytes as a big-endian number. Verbs applications treat
// them as opaque network-order bytes.
func (h ImmDt) Value() uint32 { return binary.BigEndian.Uint32(h[0:4]) }

// SetValue writes the four bytes.
func (h ImmDt) SetValue(v uint32) { binary.BigEndian.PutUint32(h[0:4], v) }
