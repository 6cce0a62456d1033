// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// IETHLen is the size of the invalidate extended transport header (IBTA 9.3).
const IETHLen = 4

// IETH names the key that SEND with invalidate revokes at the receiver.
//
//	0 R_Key(32)
type IETH []byte

// ParseIETH returns the view on the first 4 bytes of b, or ErrShort.
func ParseIETH(b []byte) (IETH, error) {
	if len(b) < IETHLen {
		return nil, ErrShort
	}
	return IETH(b[:IETHLen:IETHLen]), nil
}

// RKey is the key to invalidate.
func (h IETH) RKey() uint32 { return binary.BigEndian.Uint32(h[0:4]) }

// SetRKey writes the key to invalidate.
func (h IETH) SetRKey(k uint32) { binary.BigEndian.PutUint32(h[0:4], k) }
