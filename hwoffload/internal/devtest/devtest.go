// SPDX-License-Identifier: Apache-2.0

// Package devtest tests that a device has the registers of the definition. It is for tests of
// implementations of a card: the model, a simulator, a board.
package devtest

import (
	"fmt"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
)

// Options says what a device has.
type Options struct {
	// Blocks are the blocks that the device has; nil = all of the definition.
	Blocks []layout.Block

	// Put sets a 32-bit word of a register as the card itself does, also RO and RW1C fields. addr is
	// a multiple of 4. Without Put, the fields that only the card sets are tested at their reset
	// values only, and RW1C is not tested.
	Put func(addr uint64, v uint32)
}

// Run tests a device after its reset by Check.
func Run(t *testing.T, d hwoffload.Device, o Options) {
	t.Helper()
	for _, problem := range Check(d, o) {
		t.Error(problem)
	}
}

// Check compares a device after its reset with the definition, and returns what differs. Of
// arrays it tests the first two elements and the last:
//
//   - Each register has its reset value.
//   - After a write of ones, and after one of zeros, RW fields have the written value, RO fields
//     their reset value, WO fields and reserved bits are 0.
//   - Registers do not alias: each gets a value of its own, and all are read afterwards.
//   - After the card has set all bits (Options.Put), a write to RO fields changes nothing, and a
//     write to RW1C fields clears the bits that are 1 in it, and no others.
//   - Reserved addresses in and next to blocks read 0 after a write, which changes no register.
//   - A register of 64 bits has its low half at the lower address.
//   - Each command register reads 0 after a write of ones. This executes the commands with all
//     parameters ones, so it is the last test.
//
// Exceptions has the registers to which a part of this does not apply. The device must be reset
// before it is used again.
func Check(d hwoffload.Device, o Options) []string {
	if o.Blocks == nil {
		o.Blocks = regs.Blocks
	}
	c := &checker{d: d, put: o.Put, blocks: o.Blocks}
	c.cells = c.allCells()
	for _, part := range []func(){c.resets, c.writes, c.strides, c.cardSets, c.reserved, c.halves, c.commands} {
		part()
		if err := d.Err(); err != nil {
			c.problem("the device failed: %v", err)
			break
		}
		if len(c.problems) > maxProblems {
			c.problems = append(c.problems[:maxProblems], "...")
			break
		}
	}
	return c.problems
}

const maxProblems = 50

type checker struct {
	d        hwoffload.Device
	put      func(addr uint64, v uint32)
	blocks   []layout.Block
	cells    []cell
	problems []string
}

func (c *checker) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// cell is one register of one element.
type cell struct {
	block *layout.Block
	reg   *layout.Register
	i, j  uint64 // element of the block, element of the register
	exception
}

func (r cell) String() string {
	return fmt.Sprintf("%s.%s of element %d, %d", r.block.Name, r.reg.Name, r.i, r.j)
}

func (r cell) addr() uint64 { return r.block.Address(r.i, r.reg, r.j) }

// ones has all bits of the register.
func (r cell) ones() uint64 { return ^uint64(0) >> (64 - r.reg.Bits) }

// written is what the driver reads after it wrote v to a register whose RO fields have the
// value ro. RW1C bits have been 0.
func (r cell) written(v, ro uint64) uint64 {
	return v&r.reg.Mask(layout.RW) | ro&r.reg.Mask(layout.RO)
}

// command reports whether the register has a command.
func (r cell) command() bool { return r.reg.Mask(layout.WO) != 0 }

// ends are the first two elements and the last of an array.
func ends(count uint64) []uint64 {
	switch {
	case count == 1:
		return []uint64{0}
	case count == 2:
		return []uint64{0, 1}
	}
	return []uint64{0, 1, count - 1}
}

func (c *checker) allCells() (all []cell) {
	for b := range c.blocks {
		block := &c.blocks[b]
		for r := range block.Registers {
			reg := &block.Registers[r]
			for _, i := range ends(block.Count) {
				for _, j := range ends(reg.Count) {
					all = append(all, cell{block, reg, i, j, exceptions[block.Name+"."+reg.Name]})
				}
			}
		}
	}
	return all
}

func (c *checker) get(r cell) uint64 {
	if r.reg.Bits == 32 {
		return uint64(c.d.R32(r.addr()))
	}
	return c.d.R64(r.addr())
}

func (c *checker) set(r cell, v uint64) {
	if r.reg.Bits == 32 {
		c.d.W32(r.addr(), uint32(v))
		return
	}
	c.d.W64(r.addr(), v)
}

// want reads a register and compares it. A register that the card changes is compared in its
// bits that are not readable only, which are 0.
func (c *checker) want(r cell, want uint64, when string) {
	got := c.get(r)
	if r.live {
		got, want = got&^readable(r.reg), 0
	}
	if got != want {
		c.problem("%v is %#x %s, want %#x", r, got, when, want)
	}
}

func readable(r *layout.Register) uint64 {
	return r.Mask(layout.RO) | r.Mask(layout.RW) | r.Mask(layout.RW1C)
}
