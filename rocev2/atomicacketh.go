// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// AtomicAckETHLen is the size of the atomic acknowledge header (IBTA 9.3).
const AtomicAckETHLen = 8

// AtomicAckETH returns what the memory held before an atomic operation.
//
//	0 original value(64)
type AtomicAckETH []byte

// ParseAtomicAckETH returns the view on the first 8 bytes of b, or ErrShort.
func ParseAtomicAckETH(b []byte) (AtomicAckETH, error) {
	if len(b) < AtomicAckETHLen {
		return nil, ErrShort
	}
	return AtomicAckETH(b[:AtomicAckETHLen:AtomicAckETHLen]), nil
}

// Original is the value before the operation.
func (h AtomicAckETH) Original() uint64 { return binary.BigEndian.Uint64(h[0:8]) }

// SetOriginal writes the value before the operation.
func (h AtomicAckETH) SetOriginal(v uint64) { binary.BigEndian.PutUint64(h[0:8], v) }
