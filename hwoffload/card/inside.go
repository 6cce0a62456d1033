// SPDX-License-Identifier: Apache-2.0

package card

import (
	"encoding/binary"
	"net/netip"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// inside is the card's own access to its registers: writes change also what the driver cannot
// write, and set bits that a driver clears. The model's lock is held.
type inside struct{ m *Model }

var _ regs.Bus = inside{}

func (b inside) R32(addr uint64) uint32 { return b.m.read(addr) }

func (b inside) R64(addr uint64) uint64 {
	return uint64(b.m.read(addr)) | uint64(b.m.read(addr+4))<<32
}

func (b inside) W32(addr uint64, v uint32) { b.m.put(addr, v) }

func (b inside) W64(addr uint64, v uint64) {
	b.m.put(addr, uint32(v))
	b.m.put(addr+4, uint32(v>>32))
}

// add adds to a counter of 64 bits.
func (b inside) add(addr, n uint64) { b.W64(addr, b.R64(addr)+n) }

// setBit sets a bit of an array of words with 32 bits each.
func (b inside) setBit(addr uint64, bit uint32) {
	addr += uint64(bit/32) * 4
	b.W32(addr, b.R32(addr)|1<<(bit%32))
}

// address decodes an address that two registers hold in the order of block nodes.
func address(high, low uint64) netip.Addr {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], high)
	binary.LittleEndian.PutUint64(b[8:], low)
	return netip.AddrFrom16(b).Unmap()
}

// macBytes decodes an Ethernet address, whose first byte is in bits 40 to 47.
func macBytes(v uint64) (b [6]byte) {
	for i := range b {
		b[i] = byte(v >> (40 - 8*i))
	}
	return b
}
