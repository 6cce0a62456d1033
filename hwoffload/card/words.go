// SPDX-License-Identifier: Apache-2.0

package card

import "github.com/softroce/softroce-xdp/hwoffload/regs/layout"

// block finds the words of a block.
type block struct {
	def   *layout.Block
	words map[uint64]*word // 32-bit words by offset in an element of the block
}

// word is 32 bits of a register.
type word struct {
	reg          *layout.Register
	high         bool // the upper half of a register of 64 bits
	element      uint64
	rw, wo, rw1c uint32 // bits by access
	readable     uint32 // bits of all fields but WO
}

// reset is the word's value after reset.
func (w *word) reset() uint32 { return half(w.reg.Reset(w.element), w.high) & w.readable }

// index finds all words of a block's element.
func index(def *layout.Block) block {
	b := block{def, map[uint64]*word{}}
	for i := range def.Registers {
		r := &def.Registers[i]
		for j := range r.Count {
			for at := uint64(0); at < uint64(r.Bits/8); at += 4 {
				b.words[r.Offset+j*r.Stride+at] = newWord(r, j, at == 4)
			}
		}
	}
	return b
}

func newWord(r *layout.Register, element uint64, high bool) *word {
	w := &word{
		reg: r, high: high, element: element,
		rw: half(r.Mask(layout.RW), high), wo: half(r.Mask(layout.WO), high), rw1c: half(r.Mask(layout.RW1C), high),
	}
	w.readable = half(r.Mask(layout.RO), high) | w.rw | w.rw1c
	return w
}

func half(v uint64, high bool) uint32 {
	if high {
		return uint32(v >> 32)
	}
	return uint32(v)
}

// find returns the word at an address, or nil if the address is reserved.
func (m *Model) find(addr uint64) *word {
	for i := range m.blocks {
		b := &m.blocks[i]
		if addr >= b.def.Base && addr < b.def.Base+b.def.Size() {
			return b.words[(addr-b.def.Base)%b.def.Stride]
		}
	}
	return nil
}
