// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// PD is a protection domain of a card.
type PD struct {
	d    *Device
	num  uint32
	uses int
}

var (
	_ verbs.PD           = (*PD)(nil)
	_ verbs.DeviceMemory = (*PD)(nil)
)

// AllocPD implements verbs.Device. A card keeps no state for a protection domain.
func (d *Device) AllocPD() (verbs.PD, error) {
	d.lock.Lock()
	d.free.pds++
	p := &PD{d: d, num: d.free.pds}
	d.lock.Unlock()
	if err := d.add(p); err != nil {
		return nil, err
	}
	return p, nil
}

// Number is the number of the protection domain in the card's registers.
func (p *PD) Number() uint32 { return p.num }

// Free implements verbs.PD.
func (p *PD) Free() error { return p.d.remove(p, "protection domain", &p.uses) }

func (p *PD) order() int   { return orderPD }
func (p *PD) close() error { return nil }

// RegMR implements verbs.PD: it fails.
func (p *PD) RegMR([]byte, verbs.Access) (verbs.MR, error) {
	return nil, fmt.Errorf("card: register memory of this process: %w: the card accesses its own memory only: use AllocDM of verbs.DeviceMemory, or verbs.NewMemory",
		errors.ErrUnsupported)
}

// firstVA is the address of the first region, for work requests and peers. Between two regions are
// addresses of none.
const (
	firstVA = 1 << 40
	gapVA   = 1 << 21
)

// DM is a region of card memory.
type DM struct {
	*hwoffload.Memory // ReadAt and WriteAt
	pd                *PD
	mr                *MR
	rkey              uint32
}

var _ verbs.DM = (*DM)(nil)

// AllocDM implements verbs.DeviceMemory.
func (p *PD) AllocDM(bytes int, access verbs.Access) (verbs.DM, error) {
	if err := p.d.err(); err != nil {
		return nil, err
	}
	if bytes < 1 {
		return nil, fmt.Errorf("card: %w: %d bytes", verbs.ErrRange, bytes)
	}
	m, err := p.d.card.Memory(uint64(bytes), nil)
	if err != nil {
		return nil, err
	}
	mr, err := p.register(m, access)
	if err != nil {
		return nil, errors.Join(err, m.Free())
	}
	r := &DM{Memory: m, pd: p, mr: mr}
	if access&(verbs.AccessRemoteRead|verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 {
		r.rkey = mr.RKey()
	}
	if err := p.d.add(r, &p.uses); err != nil {
		return nil, firstOf(err, r.close())
	}
	return r, nil
}

func (p *PD) register(m *hwoffload.Memory, access verbs.Access) (*MR, error) {
	size := m.Space().PageSize()
	pages, err := m.Space().Pages(1 << size)
	if err != nil {
		return nil, err
	}
	s := Spec{PD: p.num, Access: access, Pages: pages, PageShift: size, Len: uint64(m.Size())}
	if access&verbs.AccessZeroBased == 0 {
		p.d.lock.Lock()
		s.VA = p.d.nextVA
		p.d.nextVA += (s.Len + 2*gapVA - 1) &^ (gapVA - 1)
		p.d.lock.Unlock()
	}
	return p.d.RegMR(s)
}

// VA, Len, LKey and RKey implement verbs.MR.

// VA implements verbs.MR.
func (r *DM) VA() uint64 { return r.mr.VA() }

// Len implements verbs.MR.
func (r *DM) Len() uint64 { return r.mr.Len() }

// LKey implements verbs.MR.
func (r *DM) LKey() uint32 { return r.mr.LKey() }

// RKey implements verbs.MR.
func (r *DM) RKey() uint32 { return r.rkey }

// Deregister implements verbs.MR. It returns the memory to the card too.
func (r *DM) Deregister() error {
	d := r.pd.d
	if err := d.remove(r, "region", nil); err != nil {
		return err
	}
	if err := r.mr.Deregister(); err != nil { // windows are bound to it
		return errors.Join(err, d.add(r))
	}
	d.release(&r.pd.uses)
	return r.Memory.Free()
}

func (r *DM) order() int { return orderMR }

func (r *DM) close() error { return errors.Join(r.mr.Deregister(), r.Memory.Free()) }

// MW is a memory window of a card, of type 2B.
type MW struct {
	pd      *PD
	element uint64
}

// AllocMW implements verbs.PD. The window is not bound.
func (p *PD) AllocMW() (verbs.MW, error) {
	if err := p.d.err(); err != nil {
		return nil, err
	}
	element, err := p.d.newWindow(p.num)
	if err != nil {
		return nil, err
	}
	m := &MW{p, element}
	if err := p.d.add(m, &p.uses); err != nil {
		return nil, firstOf(err, p.d.disable(element))
	}
	return m, nil
}

func (m *MW) registers() regs.Mr { return regs.MrOf(m.pd.d.card, int(m.element)) }

// RKey implements verbs.MW: a bind changes its low 8 bits.
func (m *MW) RKey() uint32 { return m.registers().Key() }

// Bound reports whether the window is bound.
func (m *MW) Bound() bool { return !m.registers().State().Invalid() }

// Free implements verbs.MW.
func (m *MW) Free() error {
	if err := m.pd.d.remove(m, "memory window", nil); err != nil {
		return err
	}
	m.pd.d.release(&m.pd.uses)
	return m.close()
}

func (m *MW) order() int   { return orderMW }
func (m *MW) close() error { return m.pd.d.disable(m.element) }
