// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// AtomicETHLen is the size of the atomic extended transport header (IBTA 9.3).
const AtomicETHLen = 28

// AtomicETH carries the operands of COMPARE_SWAP and FETCH_ADD.
//
//	0 VA(64)  8 R_Key(32)  12 Swap or Add(64)  20 Compare(64)
type AtomicETH []byte

// ParseAtomicETH returns the view on the first 28 bytes of b, or ErrShort.
func ParseAtomicETH(b []byte) (AtomicETH, error) {
	if len(b) < AtomicETHLen {
		return nil, ErrShort
	}
	return AtomicETH(b[:AtomicETHLen:AtomicETHLen]), nil
}

// VA is the address of the 8-byte operand; it must be a multiple of 8.
func (h AtomicETH) VA() uint64 { return binary.BigEndian.Uint64(h[0:8]) }

// RKey is the remote key.
func (h AtomicETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:12]) }

// SwapOrAdd is the new value (COMPARE_SWAP) or the addend (FETCH_ADD).
func (h AtomicETH) SwapOrAdd() uint64 { return binary.BigEndian.Uint64(h[12:20]) }

// Compare is what COMPARE_SWAP compares with.
func (h AtomicETH) Compare() uint64 { return binary.BigEndian.Uint64(h[20:28]) }

// SetVA writes the address.
func (h AtomicETH) SetVA(va uint64) { binary.BigEndian.PutUint64(h[0:8], va) }

// SetRKey writes the remote key.
func (h AtomicETH) SetRKey(k uint32) { binary.BigEndian.PutUint32(h[8:12], k) }

// SetSwapOrAdd writes the new value or the addend.
func (h AtomicETH) SetSwapOrAdd(v uint64) { binary.BigEndian.PutUint64(h[12:20], v) }

// SetCompare writes the value to compare with.
func (h AtomicETH) SetCompare(v uint64) { binary.BigEndian.PutUint64(h[20:28], v) }
