// SPDX-License-Identifier: Apache-2.0

// Package card is the model of a card in memory: its registers, its DDR and its data path. Internal
// to this project. It is a hwoffload.Device for tests, and for work without a card.
//
// The data path executes the WQEs of queue pairs (S2.2 to S2.4). Frames enter by Deliver and leave
// by NextFrame; Start does both for real wires (Cable, Ethernet), and Virtual for models on virtual
// time. The data path appends timestamps and updates the destination table (S1.2 to S1.4); Receive
// updates it by a packet that the caller describes.
package card

import (
	"sync"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/hwoffload/regs/layout"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Model is a card in memory. Registers behave as their access in the definition says, and
// hold their reset values at first. All methods may be called concurrently.
type Model struct {
	hwoffload.Fault
	lock   sync.Mutex
	blocks []block
	ddr    ddr
	dma    dma
	clock  func() uint64 // nil: register now_ns stays as it is

	data      *dataPath
	tasks     *Tasks         // nil: block task has no effect
	running   func() qp.Time // time of a model that runs (Start); nil: it does not
	wake      chan struct{}  // signal that there may be packets to send
	interrupt chan struct{}  // signal that the interrupt line became active
}

var _ hwoffload.Device = (*Model)(nil)

// New returns a card after reset whose clock stands still at 0.
func New() *Model { return newModel(regs.Blocks) }

// NewAt returns a card after reset with a clock, in nanoseconds, which register now_ns of block
// calls shows. The times that are given to Receive must be of the same clock.
func NewAt(clock func() uint64) *Model {
	m := New()
	m.clock = clock
	return m
}

func newModel(blocks []layout.Block) *Model {
	m := &Model{wake: make(chan struct{}, 1), interrupt: make(chan struct{}, 1)}
	m.data = newDataPath(m)
	for i := range blocks {
		m.blocks = append(m.blocks, newBlock(&blocks[i]))
	}
	m.setCapabilities()
	return m
}

// setCapabilities writes what the card contains. Cores come and go.
func (m *Model) setCapabilities() {
	e := regs.IdentOf(inside{m})
	m.put(regs.IdentBase+regs.IdentCapabilitiesOffset, uint32(e.Capabilities().WithQueuePairs(true).WithDistribution(true).WithCompute(m.tasks != nil)))
}

// Size is the length of the address space in bytes: registers and the DDR window.
func (m *Model) Size() uint64 { return hwoffload.BARSize }

// Close does nothing.
func (m *Model) Close() error { return nil }

// R32 reads 32 bits. All ones is the value after a failure.
func (m *Model) R32(addr uint64) uint32 {
	if !m.Check(addr, 4, m.Size()) {
		return ^uint32(0)
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	if addr >= regs.DdrWindowBaseReset {
		return m.ddr.r32(m.ddrAddr(addr))
	}
	return m.read(addr)
}

// R64 reads 64 bits. All ones is the value after a failure.
func (m *Model) R64(addr uint64) uint64 {
	if !m.Check(addr, 8, m.Size()) {
		return ^uint64(0)
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	if addr >= regs.DdrWindowBaseReset {
		return m.ddr.r64(m.ddrAddr(addr))
	}
	return m.read64(addr)
}

// W32 writes 32 bits.
func (m *Model) W32(addr uint64, v uint32) {
	if !m.Check(addr, 4, m.Size()) {
		return
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	if addr >= regs.DdrWindowBaseReset {
		m.ddr.w32(m.ddrAddr(addr), v)
		return
	}
	m.write(addr, v)
}

// W64 writes 64 bits.
func (m *Model) W64(addr uint64, v uint64) {
	if !m.Check(addr, 8, m.Size()) {
		return
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	if addr >= regs.DdrWindowBaseReset {
		m.ddr.w64(m.ddrAddr(addr), v)
		return
	}
	m.write64(addr, v)
}

// Put sets the word of a register as the card itself does: also fields that the driver cannot
// write. Reserved bits stay 0. addr is a multiple of 4.
func (m *Model) Put(addr uint64, v uint32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.put(addr, v)
}

func (m *Model) put(addr uint64, v uint32) {
	if w, value := m.find(addr); w != nil {
		m.set(addr, value, v&w.readable)
	}
}

// set stores the value of the word at an address. A word with the field queued of an entry changes the bit
// of the entry in active.
func (m *Model) set(addr uint64, value *uint32, v uint32) {
	*value = v
	const queued = regs.DestQueuedWordOffset
	if addr < regs.DestBase || addr >= regs.DestBase+regs.DestCount*regs.DestStride || (addr-regs.DestBase)%regs.DestStride != queued {
		return
	}
	i := (addr - regs.DestBase) / regs.DestStride
	_, active := m.find(regs.CallsBase + regs.CallsActiveOffset + i/32*regs.CallsActiveStride)
	bit := uint32(1) << (i % 32)
	if regs.DestQueuedWord(v).Queued() != 0 {
		*active |= bit
	} else {
		*active &^= bit
	}
}

// now is the time of the card's clock.
func (m *Model) now() uint64 { return m.read64(regs.CallsBase + regs.CallsNowNsOffset) }

// tick brings register now_ns up to date. It is called when the lower half is read: the upper
// half is of the same time.
func (m *Model) tick() {
	const addr = regs.CallsBase + regs.CallsNowNsOffset
	if m.clock != nil {
		now := m.clock()
		_, low := m.find(addr)
		_, high := m.find(addr + 4)
		*low, *high = uint32(now), uint32(now>>32)
	}
}

func (m *Model) read64(addr uint64) uint64 {
	return uint64(m.read(addr)) | uint64(m.read(addr+4))<<32
}

func (m *Model) write64(addr, v uint64) {
	m.write(addr, uint32(v))
	m.write(addr+4, uint32(v>>32))
}

// read returns what the driver reads from a word.
func (m *Model) read(addr uint64) uint32 {
	w, value := m.find(addr)
	if w == nil {
		return 0
	}
	switch {
	case addr == regs.CallsBase+regs.CallsNowNsOffset:
		m.tick()
	default:
		m.data.refresh(addr)
	}
	return *value
}

// stored is the value of a word that is not reserved, without what a read brings up to date.
func (m *Model) stored(addr uint64) uint32 {
	_, value := m.find(addr)
	return *value
}

// write does what a write of the driver does to a word.
func (m *Model) write(addr uint64, v uint32) {
	w, value := m.find(addr)
	if w == nil {
		return
	}
	old := *value
	now := old&^w.rw | v&w.rw
	now &^= v & w.rw1c
	if now != old {
		m.set(addr, value, now)
		m.data.written(addr, old, now)
	}
	if w.wo != 0 {
		m.command(addr, v&w.wo)
	}
}

// ddrAddr is the DDR address behind an address in the window (S2.5).
func (m *Model) ddrAddr(addr uint64) uint64 {
	const selectAddr = regs.DdrBase + regs.DdrWindowOffset
	window := regs.DdrWindow(m.read(selectAddr)).Select()
	return uint64(window)<<28 | (addr - regs.DdrWindowBaseReset)
}
