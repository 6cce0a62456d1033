// SPDX-License-Identifier: Apache-2.0

package devtest

import (
	"slices"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
)

// resets reads all registers after reset.
func (c *checker) resets() {
	for _, r := range c.cells {
		c.want(r, r.reg.Reset(r.j), "after reset")
	}
}

// writes writes ones and zeros, and restores the reset value.
func (c *checker) writes() {
	for _, r := range c.cells {
		if r.noWrite || r.command() {
			continue
		}
		reset := r.reg.Reset(r.j)
		c.set(r, r.ones())
		c.want(r, r.written(r.ones(), reset), "after a write of ones")
		c.set(r, 0)
		c.want(r, r.written(0, reset), "after a write of zeros")
		c.set(r, reset)
		c.want(r, reset, "after a write of its reset value")
	}
}

// cardSets sets all bits as the card does, and writes RO and RW1C fields.
func (c *checker) cardSets() {
	if c.put == nil {
		return
	}
	for _, r := range c.cells {
		if r.live || r.noWrite || r.command() {
			continue
		}
		c.putAll(r, r.ones())
		all, rw1c := readable(r.reg), r.reg.Mask(layout.RW1C)
		c.want(r, all, "after the card has set all bits")
		c.set(r, all&^rw1c&^r.reg.Mask(layout.RO))
		c.want(r, all, "after zeros were written to RO and RW1C")
		for bit := uint64(1); bit != 0; bit <<= 1 {
			if rw1c&bit == 0 {
				continue
			}
			c.set(r, all&^rw1c|bit)
			all &^= bit
			c.want(r, all, "after one RW1C bit was cleared")
		}
		c.putAll(r, r.reg.Reset(r.j))
	}
}

func (c *checker) putAll(r cell, v uint64) {
	c.put(r.addr(), uint32(v))
	if r.reg.Bits == 64 {
		c.put(r.addr()+4, uint32(v>>32))
	}
}

// strides writes a value of its own to each register, and reads all of them afterwards.
func (c *checker) strides() {
	value := func(n int) uint64 { return 0x9e3779b97f4a7c15 * uint64(n+1) }
	skip := func(r cell) bool { return r.noWrite || r.command() }
	for n, r := range c.cells {
		if !skip(r) {
			c.set(r, value(n))
		}
	}
	for n, r := range c.cells {
		reset := r.reg.Reset(r.j)
		if skip(r) {
			c.want(r, reset, "after writes to the other registers")
			continue
		}
		c.want(r, r.written(value(n), reset), "after writes to all registers")
	}
	for _, r := range c.cells {
		if !skip(r) {
			c.set(r, r.reg.Reset(r.j))
		}
	}
}

// reserved writes ones to reserved addresses in the elements that are tested, and next to
// blocks. No register changes.
func (c *checker) reserved() {
	addrs := c.reservedAddrs()
	for _, addr := range addrs {
		c.d.W32(addr, ^uint32(0))
	}
	for _, addr := range addrs {
		if got := c.d.R32(addr); got != 0 {
			c.problem("reserved address %#x is %#x after a write of ones, want 0", addr, got)
		}
	}
	for _, r := range c.cells {
		c.want(r, r.reg.Reset(r.j), "after writes to reserved addresses")
	}
}

// reservedAddrs are the addresses of reserved words, in order.
func (c *checker) reservedAddrs() (addrs []uint64) {
	blocks := append([]layout.Block{}, regs.Blocks...) // a device may have more blocks than are tested
	slices.SortFunc(blocks, func(a, b layout.Block) int { return int(int64(a.Base - b.Base)) })
	for n := range c.blocks {
		b := &c.blocks[n]
		used := words(b)
		for _, i := range ends(b.Count) {
			for at := uint64(0); at < b.Stride; at += 4 {
				if !used[at] {
					addrs = append(addrs, b.Base+i*b.Stride+at)
				}
			}
		}
		for _, addr := range []uint64{b.Base - 4, b.Base + b.Size()} {
			if addr < regs.DdrWindowBaseReset && !slices.ContainsFunc(blocks, func(o layout.Block) bool { return addr >= o.Base && addr < o.Base+o.Size() }) {
				addrs = append(addrs, addr)
			}
		}
	}
	slices.Sort(addrs)
	return slices.Compact(addrs)
}

// words are the offsets of all words of registers in an element of a block.
func words(b *layout.Block) map[uint64]bool {
	used := map[uint64]bool{}
	for n := range b.Registers {
		r := &b.Registers[n]
		for j := range r.Count {
			for at := uint64(0); at < uint64(r.Bits/8); at += 4 {
				used[r.Offset+j*r.Stride+at] = true
			}
		}
	}
	return used
}

// halves accesses registers of 64 bits as two of 32 bits.
func (c *checker) halves() {
	const v, exchanged = 0x1122334455667788, 0x5566778811223344
	for _, r := range c.cells {
		if r.reg.Bits != 64 || r.noWrite || r.live || r.command() {
			continue
		}
		reset := r.reg.Reset(r.j)
		c.set(r, v)
		want := r.written(v, reset)
		if lo, hi := c.d.R32(r.addr()), c.d.R32(r.addr()+4); uint64(lo)|uint64(hi)<<32 != want {
			c.problem("%v has the halves %#x (low) and %#x, want %#x", r, lo, hi, want)
		}
		c.d.W32(r.addr(), exchanged&0xffffffff)
		c.d.W32(r.addr()+4, exchanged>>32)
		c.want(r, r.written(exchanged, reset), "after writes of its halves")
		c.set(r, reset)
	}
}

// commands executes all commands.
func (c *checker) commands() {
	for _, r := range c.cells {
		if !r.command() {
			continue
		}
		mask := r.reg.Mask(layout.WO)
		for _, v := range []uint64{0, r.ones()} {
			if v != 0 && r.noWrite {
				continue
			}
			c.set(r, v)
			if got := c.get(r) & mask; got != 0 {
				c.problem("%v is %#x in its WO bits after a write of %#x, want 0", r, got, v)
			}
		}
	}
	if got := regs.IdentOf(c.d).Magic(); got != regs.IdentMagicReset {
		c.problem("ident.magic is %#x after the commands", got)
	}
}
