// SPDX-License-Identifier: Apache-2.0

package card

import "github.com/softroce/softroce-xdp/hwoffload/regs/layout"

// block has the words of a block.
type block struct {
	def    *layout.Block
	words  []*word    // words of an element of the block by offset/4; nil: reserved
	values [][]uint32 // values of each element's words; nil until the element is used first
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

// newBlock finds all words of a block's element.
func newBlock(def *layout.Block) block {
	b := block{def: def, values: make([][]uint32, def.Count)}
	for i := range def.Registers {
		r := &def.Registers[i]
		for j := range r.Count {
			for at := uint64(0); at < uint64(r.Bits/8); at += 4 {
				b.addWord((r.Offset+j*r.Stride+at)/4, newWord(r, j, at == 4))
			}
		}
	}
	return b
}

func (b *block) addWord(i uint64, w *word) {
	if n := uint64(len(b.words)); i >= n {
		b.words = append(b.words, make([]*word, i+1-n)...)
	}
	b.words[i] = w
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

// find returns the word at an address and where its value is, or nil if the address is reserved.
func (m *Model) find(addr uint64) (*word, *uint32) {
	if addr%4 != 0 {
		return nil, nil
	}
	for i := range m.blocks {
		b := &m.blocks[i]
		if at := addr - b.def.Base; addr >= b.def.Base && at < b.def.Size() {
			return b.find(at/b.def.Stride, at%b.def.Stride/4)
		}
	}
	return nil, nil
}

func (b *block) find(element, i uint64) (*word, *uint32) {
	if i >= uint64(len(b.words)) || b.words[i] == nil {
		return nil, nil
	}
	if b.values[element] == nil {
		b.values[element] = b.reset()
	}
	return b.words[i], &b.values[element][i]
}

// reset has the values of an element after reset.
func (b *block) reset() []uint32 {
	values := make([]uint32, len(b.words))
	for i, w := range b.words {
		if w != nil {
			values[i] = w.reset()
		}
	}
	return values
}
