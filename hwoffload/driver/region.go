// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Spec says which card memory a region covers and what may be done with it (S2.6).
type Spec struct {
	PD     uint32 // number of a protection domain
	Access verbs.Access

	// Addr is the DDR address of the first byte of a region that lies in one piece. The memory of
	// a region is the caller's, from the card's Allocator.
	Addr uint64
	// Pages are the DDR addresses of the pages of any other region, multiples of the page
	// size. First is the offset of the first byte in the first page. Addr is 0.
	Pages     []uint64
	PageShift int // log2 of the page size, 12 to 30
	First     uint32

	Len uint64 // bytes

	// VA is the address of the first byte as work requests and peers name it. 0 with
	// verbs.AccessZeroBased.
	VA uint64

	// Group has the card forward what peers write to the region (S2.7); nil: nothing is forwarded.
	Group *Group

	// Invalidatable allows local invalidate and SEND with invalidate.
	Invalidatable bool

	tasks *tasksOf // tasks of a task queue, or nil
}

// Page sizes of a region in one piece.
const (
	smallShift, largeShift = 12, 21
	smallLimit             = 1 << 24 // bytes
)

// inOnePiece sets the pages of a region that lies in one piece.
func (s *Spec) inOnePiece() {
	s.PageShift = smallShift
	if s.Len > smallLimit {
		s.PageShift = largeShift
	}
	size := uint64(1) << s.PageShift
	s.First = uint32(s.Addr % size)
	for page := s.Addr - s.Addr%size; page < s.Addr+s.Len; page += size {
		s.Pages = append(s.Pages, page)
	}
}

// check reports what is wrong with a region.
func (s *Spec) check() error {
	size := uint64(1) << s.PageShift
	switch {
	case s.PageShift < 12 || s.PageShift > 30:
		return fmt.Errorf("%w: pages of 2^%d bytes: use 2^12 to 2^30", verbs.ErrRange, s.PageShift)
	case uint64(s.First) >= size || uint64(len(s.Pages)) != (uint64(s.First)+s.Len+size-1)/size:
		return fmt.Errorf("%w: %d bytes from byte %d of the first page on do not take %d pages of %d bytes", verbs.ErrRange, s.Len, s.First, len(s.Pages), size)
	case s.PD>>24 != 0:
		return fmt.Errorf("%w: protection domain %#x: a number has 24 bits", verbs.ErrPD, s.PD)
	}
	for _, p := range s.Pages {
		if p%size != 0 || p >= hwoffload.DDRBytes {
			return fmt.Errorf("%w: page %#x: use multiples of %#x below %#x", verbs.ErrRange, p, size, uint64(hwoffload.DDRBytes))
		}
	}
	return nil
}

// MR is a region of card memory.
type MR struct {
	d          *Device
	element    uint64
	mtt, pages uint64
	key        uint32
	va, length uint64
}

// RegMR registers card memory. The error wraps verbs.ErrRange, ErrPD or ErrAccess.
func (d *Device) RegMR(s Spec) (*MR, error) {
	if s.Len == 0 || s.Len > hwoffload.DDRBytes || s.Pages == nil && s.Addr > hwoffload.DDRBytes-s.Len {
		return nil, fmt.Errorf("card: register: %w: %d bytes at %#x: the DDR has %#x bytes", verbs.ErrRange, s.Len, s.Addr, uint64(hwoffload.DDRBytes))
	}
	if s.Pages == nil {
		s.inOnePiece()
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("card: register: %w", err)
	}
	m := &MR{d: d, pages: uint64(len(s.Pages)), va: s.VA, length: s.Len}
	var err error
	if m.mtt, err = d.take(&d.free.mtt, m.pages, 1); err != nil {
		return nil, err
	}
	if m.element, m.key, err = d.newKey(); err != nil {
		d.give(&d.free.mtt, m.mtt, m.pages)
		return nil, err
	}
	for i, p := range s.Pages {
		regs.MttOf(d.card, int(m.mtt)+i).SetPage(regs.MttPage(0).WithPageAddress(p))
	}
	e := regs.MrOf(d.card, int(m.element))
	e.SetPages(regs.MrPages(0).WithPageShift(uint32(s.PageShift)))
	e.SetVa(s.VA)
	e.SetLength(s.Len)
	e.SetMttFirst(uint32(m.mtt))
	e.SetFirstByte(s.First)
	if s.tasks != nil {
		e.SetTasks(regs.MrTasks(0).WithTaskQp(s.tasks.qpn).WithTaskDepth(s.tasks.depth))
	}
	if err := d.enable(e, m.key, s.PD, control(&s)); err != nil {
		d.freeKey(m.element)
		d.give(&d.free.mtt, m.mtt, m.pages)
		return nil, fmt.Errorf("card: register: %w: rights %#x, %d bytes at %#x: remote write and atomic need local write; atomics need address and memory equal modulo 8: %w",
			verbs.ErrAccess, uint8(s.Access), s.Len, s.VA, err)
	}
	return m, nil
}

func control(s *Spec) regs.MrControl {
	has := func(a verbs.Access) bool { return s.Access&a != 0 }
	c := regs.MrControl(0)
	if s.Group != nil {
		c = c.WithKind(regs.MrKindDistribution).WithGroup(uint32(s.Group.num))
	}
	if s.tasks != nil {
		c = c.WithKind(regs.MrKindTaskQueue)
	}
	return c.WithLocalWrite(has(verbs.AccessLocalWrite)).WithRemoteWrite(has(verbs.AccessRemoteWrite)).
		WithRemoteRead(has(verbs.AccessRemoteRead)).WithRemoteAtomic(has(verbs.AccessRemoteAtomic)).
		WithBindWindows(has(verbs.AccessBindWindows)).WithZeroBased(has(verbs.AccessZeroBased)).WithInvalidatable(s.Invalidatable)
}

// decideLimit is how long the card may take to decide about a region.
const decideLimit = time.Minute

// enable has the card use an element of block mr.
func (d *Device) enable(e regs.Mr, key, pd uint32, c regs.MrControl) error {
	e.SetKey(key)
	e.SetDomain(regs.MrDomain(0).WithPd(pd))
	e.SetControl(c.WithValid(true))
	state := e.State()
	ctx, cancel := context.WithTimeout(context.Background(), decideLimit)
	defer cancel()
	for state.Pending() && d.card.Err() == nil && pause(ctx) == nil {
		state = e.State()
	}
	if err := d.card.Err(); err != nil {
		return err
	}
	if !state.Usable() {
		e.SetControl(0)
		return errRefused
	}
	return nil
}

// newKey takes an element of block mr and draws a key for it that differs from its latest one in
// more than the low 8 bits, which a bind changes.
func (d *Device) newKey() (element uint64, key uint32, err error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if element, err = d.free.regions.take(1, 1); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", verbs.ErrNoKey, err)
	}
	for key = d.free.lastKey[element]; key>>8 == d.free.lastKey[element]>>8 || key>>8 == 0; {
		key = uint32(element)<<16 | rand.Uint32()&0xffff
	}
	d.free.lastKey[element] = key
	return element, key, nil
}

func (d *Device) freeKey(element uint64) { d.give(&d.free.regions, element, 1) }

// disable has the card forget an element of block mr.
func (d *Device) disable(element uint64) error {
	e := regs.MrOf(d.card, int(element))
	e.SetControl(e.Control().WithValid(false))
	still := e.Control().Valid()
	if err := d.card.Err(); err != nil {
		return err
	}
	if still {
		return fmt.Errorf("card: the region is %w: windows are bound to it (invalidate or free them first), or tasks of it are in execution", verbs.ErrBusy)
	}
	d.freeKey(element)
	return nil
}

// LKey is the key for own work requests, RKey that for peers: it is the same number.
func (m *MR) LKey() uint32 { return m.key }

// RKey is LKey.
func (m *MR) RKey() uint32 { return m.key }

// VA is the address of the first byte.
func (m *MR) VA() uint64 { return m.va }

// Len is the number of bytes.
func (m *MR) Len() uint64 { return m.length }

// Invalid reports whether the region was invalidated.
func (m *MR) Invalid() bool { return regs.MrOf(m.d.card, int(m.element)).State().Invalid() }

// Deregister ends the region. When it has returned nil, no access to the memory comes any more.
// With windows bound it fails with verbs.ErrBusy.
func (m *MR) Deregister() error {
	if err := m.d.disable(m.element); err != nil {
		return err
	}
	m.d.give(&m.d.free.mtt, m.mtt, m.pages)
	return nil
}

// newWindow makes a window that is not bound.
func (d *Device) newWindow(pd uint32) (element uint64, err error) {
	element, key, err := d.newKey()
	if err != nil {
		return 0, err
	}
	if err := d.enable(regs.MrOf(d.card, int(element)), key, pd, regs.MrControl(0).WithKind(regs.MrKindWindow)); err != nil {
		d.freeKey(element)
		return 0, fmt.Errorf("card: window: %w", err)
	}
	return element, nil
}
