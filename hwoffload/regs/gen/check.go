// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
)

// pageBytes is the alignment of blocks, so that a block can be mapped alone.
const pageBytes = 4096

// maxCount bounds arrays.
const maxCount = 1 << 16

var name = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

func (s *source) checkName(n *yaml.Node, key, value string) {
	if !name.MatchString(value) {
		s.errorf(lineOf(n, key), "%s %q: use small letters and digits, words joined by _", key, value)
	}
}

// checkBlock checks the numbers of a block.
func (s *source) checkBlock(b *layout.Block) {
	s.checkName(s.root, "block", b.Name)
	if b.Text == "" {
		s.errorf(s.root.Line, "block %s has no description", b.Name)
	}
	if b.Type == 0 || b.Type > 0xffff {
		s.errorf(lineOf(s.root, "type"), "type is %d: set it between 1 and 65535", b.Type)
	}
	if b.Version == 0 || b.Version > 0xffff {
		s.errorf(lineOf(s.root, "version"), "version is %d: set it between 1 and 65535", b.Version)
	}
	if b.Base%pageBytes != 0 {
		s.errorf(lineOf(s.root, "base"), "base %#x is not aligned: use a multiple of %#x", b.Base, pageBytes)
	}
	if b.Stride == 0 || b.Stride%8 != 0 || b.Stride > registerSpace {
		s.errorf(lineOf(s.root, "stride"), "stride is %d: use a multiple of 8 up to %d, the bytes of one element", b.Stride, registerSpace)
		b.Stride = 8
	}
	if b.Count > maxCount {
		s.errorf(lineOf(s.root, "count"), "count is %d: set it between 1 and %d", b.Count, maxCount)
		b.Count = 1
	}
	if b.Base > registerSpace || b.Base+b.Size() > registerSpace {
		s.errorf(lineOf(s.root, "base"), "block %s ends at %#x: registers end at %#x", b.Name, b.Base+b.Size(), registerSpace)
	}
}

// checkRegister checks the place of a register, and reports whether it is right.
func (s *source) checkRegister(n *yaml.Node, b *layout.Block, r *layout.Register) bool {
	before := len(s.errs)
	if r.Bits != 32 && r.Bits != 64 {
		s.errorf(lineOf(n, "bits"), "register %s has %d bits: use 32 or 64", r.Name, r.Bits)
		return false
	}
	size := uint64(r.Bits / 8)
	if r.Offset%size != 0 {
		s.errorf(lineOf(n, "offset"), "offset %#x of register %s is not aligned: use a multiple of %d", r.Offset, r.Name, size)
	}
	if r.Count > maxCount {
		s.errorf(lineOf(n, "count"), "register %s has %d elements: use at most %d", r.Name, r.Count, maxCount)
		return false
	}
	if r.Count > 1 && (r.Stride < size || r.Stride%size != 0 || r.Stride > registerSpace) {
		s.errorf(lineOf(n, "stride"), "stride %d of register %s: use a multiple of %d", r.Stride, r.Name, size)
		return false
	}
	if end := r.Offset + (r.Count-1)*r.Stride + size; r.Offset > registerSpace || end > b.Stride {
		s.errorf(lineOf(n, "offset"), "register %s ends at %#x, an element of block %s at %#x: move it, or raise the block's stride", r.Name, end, b.Name, b.Stride)
	}
	return len(s.errs) == before
}

// words has the register of each 32-bit word of an element.
type words map[uint64]string

// add enters a register, and returns the name of another one in its place, or "".
func (w words) add(r *layout.Register) string {
	for i := range r.Count {
		at := r.Offset + i*r.Stride
		for ; at < r.Offset+i*r.Stride+uint64(r.Bits/8); at += 4 {
			if other, taken := w[at]; taken {
				return other
			}
			w[at] = r.Name
		}
	}
	return ""
}
