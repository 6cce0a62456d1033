// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// RETHLen is the size of the RDMA extended transport header (IBTA 9.3).
const RETHLen = 16

// RETH says where in the responder's memory an RDMA operation takes place.
//
//	0 VA(64)  8 R_Key(32)  12 DMALen(32)
type RETH []byte

// ParseRETH returns the view on the first 16 bytes of b, or ErrShort.
func ParseRETH(b []byte) (RETH, error) {
	if len(b) < RETHLen {
		return nil, ErrShort
	}
	return RETH(b[:RETHLen:RETHLen]), nil
}

// VA is the virtual address in the responder's memory region.
func (h RETH) VA() uint64 { return binary.BigEndian.Uint64(h[0:8]) }

// RKey is the remote key of that region.
func (h RETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:12]) }

// DMALen is the length of the whole message in bytes, not of this packet.
func (h RETH) DMALen() uint32 { return binary.BigEndian.Uint32(h[12:16]) }

// SetVA writes the virtual address.
func (h RETH) SetVA(va uint64) { binary.BigEndian.PutUint64(h[0:8], va) }

// SetRKey writes the remote key.
func (h RETH) SetRKey(k uint32) { binary.BigEndian.PutUint32(h[8:12], k) }

// SetDMALen writes the message length in bytes.
func (h RETH) SetDMALen(n uint32) { binary.BigEndian.PutUint32(h[12:16], n) }
