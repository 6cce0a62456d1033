// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"unsafe"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// TablePort is the part of the table whose nodes are behind one port of the card. It carries
// registers between the card and the policy loop by the calls of the card, and is a
// loop.Table. Methods are for the goroutine of the Table.
type TablePort struct {
	t      *Table
	number uint32
	slots  []bpf.AgentSlot
	next   int // element at which Collect continues
}

// Port returns the part of the table behind a port, 0 to regs.PortsCount-1.
func (t *Table) Port(number uint32) *TablePort {
	return &TablePort{t: t, number: number, slots: make([]bpf.AgentSlot, bpf.AgentSlots)}
}

// Link returns the speed of the port in bit/s and its MTU in bytes of IP.
func (p *TablePort) Link() (bps uint64, mtu uint32, err error) {
	port := regs.PortsOf(p.t.card, int(p.number))
	bps, mtu = uint64(port.SpeedMbps())*1e6, port.Mtu().Bytes()
	return bps, mtu, p.t.card.Err()
}

// Dests returns the number of the nodes behind the port, without this node.
func (p *TablePort) Dests() (n int) {
	for _, node := range p.t.nodes {
		if node.Port == p.number && node.Number != p.t.self {
			n++
		}
	}
	return n
}

// Fresh returns the nodes behind the port whose entries no agent had yet, by their keys. It
// prepares the entries: they have no sample.
func (p *TablePort) Fresh() (map[bpf.DestKey]uint32, error) {
	fresh := map[bpf.DestKey]uint32{}
	for _, node := range p.t.Nodes() {
		d := regs.DestOf(p.t.card, int(node.Number-1))
		if node.Port != p.number || d.Node() == node.Number {
			continue
		}
		d.SetWinTxNs(bpf.NoSample)
		d.SetWinRxNs(bpf.NoSample)
		d.SetWinRttNs(bpf.NoSample)
		fresh[bpf.KeyOf(node.Addr)] = node.Number
	}
	return fresh, p.t.err()
}

// Number returns the number of the port.
func (p *TablePort) Number() uint32 { return p.number }

// Slots returns the slots.
func (p *TablePort) Slots() []bpf.AgentSlot { return p.slots }

// Collect takes active entries in the order of their elements, each at most once until it
// returns fewer than there are slots.
func (p *TablePort) Collect() (n int, err error) {
	calls := regs.CallsOf(p.t.card)
	for n < len(p.slots) && p.next < regs.DestCount {
		word := p.next / 32
		active := p.t.behind[p.number][word]
		if active != 0 {
			active &= calls.Active(word)
		}
		for ; n < len(p.slots) && p.next < (word+1)*32; p.next++ {
			if active>>(p.next%32)&1 != 0 && p.collect(p.next, &p.slots[n]) {
				n++
			}
		}
	}
	if n < len(p.slots) {
		p.next = 0
	}
	return n, p.t.err()
}

// collect takes one entry.
func (p *TablePort) collect(i int, slot *bpf.AgentSlot) bool {
	calls := regs.CallsOf(p.t.card)
	calls.SetCollect(regs.CallsCollect(0).WithCollectElement(uint32(i)).WithCollectStart(true))
	if !calls.Result().Done() {
		return false // its window was collected meanwhile
	}
	slot.Key, slot.Found = bpf.KeyOf(p.t.nodes[i].Addr), 1
	hwoffload.ReadWords(p.t.card.Device, regs.CallsBase+regs.CallsBufferOffset, bpf.WordsOf(&slot.Regs))
	return true
}

// Read puts a snapshot of the entries of the first n slots' keys into the slots.
func (p *TablePort) Read(n int) error {
	for i := range n {
		slot := &p.slots[i]
		found, err := p.Lookup(slot.Key, &slot.Regs)
		if err != nil {
			return err
		}
		slot.Found = 0
		if found {
			slot.Found = 1
		}
	}
	return p.t.err()
}

// Lookup reads the registers of a destination.
func (p *TablePort) Lookup(key bpf.DestKey, d *bpf.DestRegs) (bool, error) {
	i, ok := p.t.element[key]
	if ok {
		p.t.read(i, d)
	}
	return ok, p.t.card.Err()
}

// Words of an entry that Apply writes to the buffer, by what names them.
var (
	ratesWords = wordsAt(unsafe.Offsetof(bpf.DestRegs{}.RateBps), 8, unsafe.Offsetof(bpf.DestRegs{}.EngineRateBps), 8,
		unsafe.Offsetof(bpf.DestRegs{}.Bound), 1, unsafe.Offsetof(bpf.DestRegs{}.StackRateBps), 8,
		unsafe.Offsetof(bpf.DestRegs{}.Policy), unsafe.Sizeof(bpf.PolicyRegs{}))
	classWords = wordsAt(unsafe.Offsetof(bpf.DestRegs{}.ClassId), 4)
	nodeWords  = wordsAt(unsafe.Offsetof(bpf.DestRegs{}.Node), 4)
	capsWords  = wordsAt(unsafe.Offsetof(bpf.DestRegs{}.Caps), 2)
)

// wordsAt returns the numbers of the words with fields, given as offset and size of each.
func wordsAt(fields ...uintptr) (words []int) {
	for i := 0; i < len(fields); i += 2 {
		for at := fields[i] &^ 7; at < fields[i]+fields[i+1]; at += 8 {
			words = append(words, int(at/8))
		}
	}
	return words
}

// Apply writes, for the first n slots, the registers that their Op names.
func (p *TablePort) Apply(n int) error {
	calls := regs.CallsOf(p.t.card)
	for i := range n {
		slot := &p.slots[i]
		element, ok := p.t.element[slot.Key]
		slot.Found = 0
		if !ok {
			continue // it is no node any more
		}
		slot.Found = 1
		if slot.Op == 0 {
			continue
		}
		for _, x := range []struct {
			bit   uint32
			words []int
		}{{bpf.SetPolicy, ratesWords}, {bpf.SetClass, classWords}, {bpf.SetNode, nodeWords}, {bpf.SetCaps, capsWords}} {
			if slot.Op&x.bit == 0 {
				continue
			}
			for _, w := range x.words {
				calls.SetBuffer(w, bpf.WordsOf(&slot.Regs)[w])
			}
		}
		if slot.Op&bpf.ShiftNextTx != 0 {
			calls.SetShiftNs(uint64(slot.ShiftNs))
		}
		calls.SetApply(regs.CallsApply(0).WithApplyElement(uint32(element)).WithApplySet(slot.Op).WithApplyStart(true))
		if !calls.Result().Done() { // the command has ended when this returns, and the buffer may be written
			if err := p.t.err(); err != nil {
				return err
			}
			return fmt.Errorf("the card does not execute apply for node %d: is it a plain file, or is its build incomplete?", element+1)
		}
	}
	return p.t.err()
}
