// SPDX-License-Identifier: Apache-2.0

package card

import (
	"encoding/binary"
	"sync"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

const (
	pageSize = 4096
	bankBits = 32 // of a DDR address; the bits above are the bank (S2.5)
)

// ddr is the memory of the card by banks, and of a bank by pages. A page that was never written
// is not there, and reads 0. Each bank has a lock of its own, so that accesses to different
// banks do not wait for each other.
type ddr struct{ banks [regs.DdrBanksReset]bank }

type bank struct {
	index sync.Mutex // guards pages, not their bytes
	pages map[uint64]*[pageSize]byte
	bytes sync.RWMutex // guards the bytes of all pages
}

func (d *ddr) bank(addr uint64) *bank { return &d.banks[addr>>bankBits] }

// page returns the page of an address, or nil if it is not there.
func (d *ddr) page(addr uint64) *[pageSize]byte {
	b := d.bank(addr)
	b.index.Lock()
	defer b.index.Unlock()
	return b.pages[addr/pageSize]
}

// make returns the page of an address.
func (d *ddr) make(addr uint64) *[pageSize]byte {
	b := d.bank(addr)
	b.index.Lock()
	defer b.index.Unlock()
	p := b.pages[addr/pageSize]
	if p == nil {
		if b.pages == nil {
			b.pages = map[uint64]*[pageSize]byte{}
		}
		p = new([pageSize]byte)
		b.pages[addr/pageSize] = p
	}
	return p
}

// read copies bytes of one or more pages. All are inside of the memory.
func (d *ddr) read(dst []byte, addr uint64) {
	for len(dst) > 0 {
		part := dst[:min(uint64(len(dst)), pageSize-addr%pageSize)]
		if p := d.page(addr); p != nil {
			b := d.bank(addr)
			b.bytes.RLock()
			copy(part, p[addr%pageSize:])
			b.bytes.RUnlock()
		} else {
			clear(part)
		}
		dst, addr = dst[len(part):], addr+uint64(len(part))
	}
}

// write copies bytes to one or more pages. All are inside of the memory.
func (d *ddr) write(src []byte, addr uint64) {
	for len(src) > 0 {
		p, b := d.make(addr), d.bank(addr)
		b.bytes.Lock()
		n := copy(p[addr%pageSize:], src)
		b.bytes.Unlock()
		src, addr = src[n:], addr+uint64(n)
	}
}

// update replaces the 8 bytes at addr, a multiple of 8, in the byte order of this machine, and
// returns what was there. No other access to the bank comes between.
func (d *ddr) update(addr uint64, f func(old uint64) uint64) (old uint64) {
	p, b := d.make(addr), d.bank(addr)
	word := p[addr%pageSize:][:8]
	b.bytes.Lock()
	defer b.bytes.Unlock()
	old = binary.NativeEndian.Uint64(word)
	binary.NativeEndian.PutUint64(word, f(old))
	return old
}

func (d *ddr) r32(addr uint64) uint32 {
	var w [4]byte
	d.read(w[:], addr)
	return binary.LittleEndian.Uint32(w[:])
}

func (d *ddr) r64(addr uint64) uint64 {
	var w [8]byte
	d.read(w[:], addr)
	return binary.LittleEndian.Uint64(w[:])
}

func (d *ddr) w32(addr uint64, v uint32) {
	var w [4]byte
	binary.LittleEndian.PutUint32(w[:], v)
	d.write(w[:], addr)
}

func (d *ddr) w64(addr uint64, v uint64) {
	var w [8]byte
	binary.LittleEndian.PutUint64(w[:], v)
	d.write(w[:], addr)
}
