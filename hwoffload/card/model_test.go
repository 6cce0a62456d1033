// SPDX-License-Identifier: Apache-2.0

package card

import (
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
)

// cell is one register of one element.
type cell struct {
	block *layout.Block
	reg   *layout.Register
	i, j  uint64 // element of the block, element of the register
}

func (c cell) addr() uint64 { return c.block.Address(c.i, c.reg, c.j) }

func (c cell) get(m *Model) uint64 {
	if c.reg.Bits == 32 {
		return uint64(m.R32(c.addr()))
	}
	return m.R64(c.addr())
}

func (c cell) set(m *Model, v uint64) {
	if c.reg.Bits == 32 {
		m.W32(c.addr(), uint32(v))
		return
	}
	m.W64(c.addr(), v)
}

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

// cells are all registers, of arrays the first two elements and the last.
func cells() (all []cell) {
	for b := range regs.Blocks {
		block := &regs.Blocks[b]
		for r := range block.Registers {
			reg := &block.Registers[r]
			for _, i := range ends(block.Count) {
				for _, j := range ends(reg.Count) {
					all = append(all, cell{block, reg, i, j})
				}
			}
		}
	}
	return all
}

func readable(r *layout.Register) uint64 {
	return r.Mask(layout.RO) | r.Mask(layout.RW) | r.Mask(layout.RW1C)
}

// Every field: its reset value, and what a write of ones and of zeros leaves.
func TestFields(t *testing.T) {
	for _, c := range cells() {
		m := New()
		reset := c.reg.Reset(c.j)
		ones := ^uint64(0) >> (64 - c.reg.Bits)
		if got := c.get(m); got != reset {
			t.Errorf("%s.%s is %#x after reset, want %#x", c.block.Name, c.reg.Name, got, reset)
		}
		c.set(m, ones)
		rw, ro := c.reg.Mask(layout.RW), c.reg.Mask(layout.RO)
		if got, want := c.get(m), rw|reset&ro; got != want {
			t.Errorf("%s.%s is %#x after a write of ones, want %#x", c.block.Name, c.reg.Name, got, want)
		}
		c.set(m, 0)
		if got, want := c.get(m), reset&ro; got != want {
			t.Errorf("%s.%s is %#x after a write of zeros, want %#x", c.block.Name, c.reg.Name, got, want)
		}
		if m.Err() != nil {
			t.Fatal(m.Err())
		}
	}
}

// put sets a register as the card does.
func (c cell) put(m *Model, v uint64) {
	m.Put(c.addr(), uint32(v))
	if c.reg.Bits == 64 {
		m.Put(c.addr()+4, uint32(v>>32))
	}
}

// What the card sets: the driver reads it, cannot change RO, and clears RW1C bit by bit.
// Reserved bits and commands read 0 even then.
func TestFieldsThatTheCardSets(t *testing.T) {
	for _, c := range cells() {
		m := New()
		c.put(m, ^uint64(0))
		all := readable(c.reg)
		if got := c.get(m); got != all {
			t.Errorf("%s.%s is %#x after the card has set all bits, want %#x", c.block.Name, c.reg.Name, got, all)
		}
		c.set(m, all&^c.reg.Mask(layout.RW1C))
		if got := c.get(m); got != all {
			t.Errorf("%s.%s is %#x after zeros were written to RW1C, want %#x", c.block.Name, c.reg.Name, got, all)
		}
		for i := range c.reg.Fields {
			f := &c.reg.Fields[i]
			if f.Access != layout.RW1C {
				continue
			}
			c.set(m, c.get(m)&^c.reg.Mask(layout.RW1C)|f.Mask())
			all &^= f.Mask()
			if got := c.get(m); got != all {
				t.Errorf("%s.%s is %#x after %s was cleared, want %#x", c.block.Name, c.reg.Name, got, f.Name, all)
			}
		}
	}
}

// A write to one register changes no other one: elements and strides do not alias. Each cell
// gets a value of its own, and all are read afterwards. Commands are left out.
func TestStrides(t *testing.T) {
	m := New()
	want := map[uint64]uint64{}
	at := map[uint64]cell{}
	for n, c := range cells() {
		v := 0x9e3779b97f4a7c15 * uint64(n+1)
		if c.reg.Mask(layout.WO) != 0 {
			continue
		}
		c.set(m, v)
		rw, ro := c.reg.Mask(layout.RW), c.reg.Mask(layout.RO)
		want[c.addr()], at[c.addr()] = v&rw|c.reg.Reset(c.j)&ro, c
	}
	for addr, v := range want {
		if got := at[addr].get(m); got != v {
			t.Errorf("%s.%s of element %d, %d is %#x, want %#x", at[addr].block.Name, at[addr].reg.Name, at[addr].i, at[addr].j, got, v)
		}
	}
}

// Reserved addresses read 0 after any write, and the write changes nothing next to them.
func TestReserved(t *testing.T) {
	m := New()
	used := map[uint64]bool{}
	for b := range regs.Blocks {
		block := &regs.Blocks[b]
		for r := range block.Registers {
			reg := &block.Registers[r]
			for n := range block.Count * reg.Count {
				addr := block.Address(n/reg.Count, reg, n%reg.Count)
				used[addr], used[addr+uint64(reg.Bits/8)-4] = true, true
			}
		}
	}
	reserved := 0
	for addr := uint64(0); addr < regs.DestBase+regs.DestCount*regs.DestStride+4096; addr += 4 {
		if used[addr] {
			continue
		}
		reserved++
		m.W32(addr, ^uint32(0))
		if got := m.R32(addr); got != 0 {
			t.Fatalf("reserved address %#x reads %#x", addr, got)
		}
	}
	if reserved < 1000 || len(m.values) != 0 || m.Err() != nil {
		t.Errorf("%d reserved addresses, %d registers changed, error %v", reserved, len(m.values), m.Err())
	}
}

// A register of 64 bits may be accessed as two of 32 bits.
func TestHalves(t *testing.T) {
	m := New()
	const addr = regs.DestBase + regs.DestTxNsOffset
	m.W64(addr, 0x1122334455667788)
	if lo, hi := m.R32(addr), m.R32(addr+4); lo != 0x55667788 || hi != 0x11223344 {
		t.Errorf("halves %#x %#x", lo, hi)
	}
	m.W32(addr+4, 1)
	if got := m.R64(addr); got != 0x155667788 {
		t.Errorf("%#x", got)
	}
}

func TestClearCounters(t *testing.T) {
	m := New()
	for i := range regs.PortsCount {
		m.Put(regs.PortsBase+uint64(i)*regs.PortsStride+regs.PortsRxBytesOffset+4, 7)
	}
	regs.PortsOf(m, 1).SetCommand(regs.PortsCommand(0).WithClearCounters(true))
	for i := range regs.PortsCount {
		want := uint64(7 << 32)
		if i == 1 {
			want = 0
		}
		if got := regs.PortsOf(m, i).RxBytes(); got != want {
			t.Errorf("port %d: %#x, want %#x", i, got, want)
		}
	}
}

// After an access that is not possible, reads return all ones, and the error stays.
func TestFaults(t *testing.T) {
	for name, access := range map[string]func(m *Model){
		"misaligned": func(m *Model) { m.R64(4) }, "odd": func(m *Model) { m.W32(2, 1) }, "beyond": func(m *Model) { m.R32(m.Size()) },
		"across the end": func(m *Model) { m.W64(m.Size()-4, 1) }, "wraps": func(m *Model) { m.R64(^uint64(7)) },
	} {
		m := New()
		access(m)
		if m.Err() == nil || m.R32(0) != ^uint32(0) || m.R64(0) != ^uint64(0) {
			t.Errorf("%s: error %v, magic %#x", name, m.Err(), m.R32(0))
		}
	}
}
