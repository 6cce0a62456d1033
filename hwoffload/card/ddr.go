// SPDX-License-Identifier: Apache-2.0

package card

import "encoding/binary"

const pageSize = 4096

// ddr is the memory of the card by pages. A page that was never written is not there, and
// reads 0. Addresses are DDR addresses, so a page belongs to one bank.
type ddr struct{ pages map[uint64]*[pageSize]byte }

// page returns the page of an address, or nil if it is not there.
func (d *ddr) page(addr uint64) *[pageSize]byte { return d.pages[addr/pageSize] }

// make returns the page of an address.
func (d *ddr) make(addr uint64) *[pageSize]byte {
	p := d.page(addr)
	if p == nil {
		if d.pages == nil {
			d.pages = map[uint64]*[pageSize]byte{}
		}
		p = new([pageSize]byte)
		d.pages[addr/pageSize] = p
	}
	return p
}

func (d *ddr) r32(addr uint64) uint32 {
	if p := d.page(addr); p != nil {
		return binary.LittleEndian.Uint32(p[addr%pageSize:])
	}
	return 0
}

func (d *ddr) r64(addr uint64) uint64 {
	if p := d.page(addr); p != nil {
		return binary.LittleEndian.Uint64(p[addr%pageSize:])
	}
	return 0
}

func (d *ddr) w32(addr uint64, v uint32) {
	binary.LittleEndian.PutUint32(d.make(addr)[addr%pageSize:], v)
}

func (d *ddr) w64(addr uint64, v uint64) {
	binary.LittleEndian.PutUint64(d.make(addr)[addr%pageSize:], v)
}
