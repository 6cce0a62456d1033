// SPDX-License-Identifier: Apache-2.0

package card

import "github.com/softroce/softroce-xdp/hwoffload/regs"

// inside is the card's own access to its registers: writes change also what the driver cannot
// write, and set bits that a driver clears. The model's lock is held.
type inside struct{ m *Model }

var _ regs.Bus = inside{}

func (b inside) R32(addr uint64) uint32 { return b.m.read(addr) }

func (b inside) R64(addr uint64) uint64 { return b.m.read64(addr) }

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
