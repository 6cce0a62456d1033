// SPDX-License-Identifier: Apache-2.0

package card

import (
	"errors"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// backend is the DDR as memory of package mr. The model's lock is held in all calls.
type backend struct{ d *ddr }

var _ mr.Backend = backend{}

var errBeyond = errors.New("card memory: the access is beyond its end")

func beyond(addr uint64, n int) bool {
	return addr > hwoffload.DDRBytes || uint64(n) > hwoffload.DDRBytes-addr
}

func (b backend) ReadAt(dst []byte, addr uint64) error {
	if beyond(addr, len(dst)) {
		return errBeyond
	}
	b.d.read(dst, addr)
	return nil
}

func (b backend) WriteAt(src []byte, addr uint64) error {
	if beyond(addr, len(src)) {
		return errBeyond
	}
	b.d.write(src, addr)
	return nil
}

// update replaces the 8 bytes at addr and returns what was there.
func (b backend) update(addr uint64, f func(old uint64) uint64) (old uint64, err error) {
	if beyond(addr, 8) {
		return 0, errBeyond
	}
	return b.d.update(addr, f), nil
}

func (b backend) CompareSwap(addr, compare, swap uint64) (uint64, error) {
	return b.update(addr, func(old uint64) uint64 {
		if old == compare {
			return swap
		}
		return old
	})
}

func (b backend) FetchAdd(addr, add uint64) (uint64, error) {
	return b.update(addr, func(old uint64) uint64 { return old + add })
}

// memoryTable has what is registered.
type memoryTable struct {
	in      inside
	ddr     backend
	keys    *mr.Table // nil until something is registered
	regions map[uint32]*region
}

// table returns the table of regions, which is made when first asked for: it has a slot for
// each of the upper 16 bits of a key.
func (d *memoryTable) table() *mr.Table {
	if d.keys == nil {
		t, err := mr.New(mr.Config{ChosenKeys: true})
		if err != nil {
			panic(err) // the default size is possible
		}
		d.keys = t
	}
	return d.keys
}

func (d *memoryTable) memory() mem.Memory { return memory{d.table(), d} }

// region is what an element of block mr stands for: a region or a window.
type region struct {
	region *mr.Region
	window *mr.Window
	pd     uint32
	qpn    uint32 // queue pair that a window is bound to, 0 = none
	group  *group // group of a distribution region
	gone   bool   // a distribution region that was removed
	tasks  *taskQueue
}

// memory is what queue pairs see. It shows in the registers what work requests change.
type memory struct {
	*mr.Table
	d *memoryTable
}

var _ mem.Memory = memory{}

// element returns the region of a key and its number.
func (m memory) element(key uint32) (uint32, *region) {
	i := key >> 16
	return i, m.d.regions[i]
}

// BindWindow implements mem.Memory.
func (m memory) BindWindow(pd, qpn uint32, b verbs.Bind) mem.Fault {
	f := m.Table.BindWindow(pd, qpn, b)
	if i, r := m.element(b.Window); f == mem.FaultNone && r != nil && r.window != nil {
		r.qpn = qpn
		regs.MrOf(m.d.in, int(i)).SetKey(r.window.RKey())
		m.d.showRegion(i, true, false)
	}
	return f
}

// InvalidateLocal implements mem.Memory.
func (m memory) InvalidateLocal(pd, qpn, key uint32) mem.Fault {
	return m.ended(key, m.Table.InvalidateLocal(pd, qpn, key))
}

// InvalidateRemote implements mem.Memory.
func (m memory) InvalidateRemote(pd, qpn, key uint32) mem.Fault {
	return m.ended(key, m.Table.InvalidateRemote(pd, qpn, key))
}

func (m memory) ended(key uint32, f mem.Fault) mem.Fault {
	if i, r := m.element(key); f == mem.FaultNone && r != nil {
		r.qpn = 0
		m.d.showRegion(i, true, true)
	}
	return f
}

// releaseWindows unbinds the windows of a queue pair.
func (d *memoryTable) releaseWindows(qpn uint32) {
	d.table().ReleaseQP(qpn)
	for i, r := range d.regions {
		if r.window != nil && r.qpn == qpn {
			r.qpn = 0
			d.showRegion(i, true, true)
		}
	}
}

// showRegion writes the register state of an element of block mr.
func (d *memoryTable) showRegion(i uint32, usable, invalid bool) {
	v := regs.MrState(0).WithUsable(usable).WithInvalid(invalid)
	d.in.W32(regs.MrBase+uint64(i)*regs.MrStride+regs.MrStateOffset, uint32(v))
}

// setRegion makes or removes a region when valid of its register control changes. If windows are
// bound to the region, valid stays 1.
func (d *dataPath) setRegion(i uint32, was, now regs.MrControl) {
	switch {
	case was.Valid() == now.Valid():
	case now.Valid():
		r := d.register(i, now)
		if r != nil {
			d.mem.regions[i] = r
		}
		if r != nil && r.tasks != nil {
			r.tasks.start()
			v := regs.MrState(0).WithPending(true)
			d.in.W32(regs.MrBase+uint64(i)*regs.MrStride+regs.MrStateOffset, uint32(v))
			return
		}
		d.mem.showRegion(i, r != nil, r != nil && r.window != nil)
	case d.mem.regions[i] == nil:
		d.mem.showRegion(i, false, false)
	case d.mem.regions[i].tasks != nil && !d.mem.regions[i].tasks.close() || !d.removeRegion(i):
		regs.MrOf(d.in, int(i)).SetControl(now.WithValid(true))
	}
}

// removeRegion ends a region or window. It returns false if windows are bound to it.
func (d *dataPath) removeRegion(i uint32) bool {
	r := d.mem.regions[i]
	if r.release() != nil {
		return false
	}
	if r.group != nil {
		r.group.regions--
		r.gone = true
	}
	d.mem.closePD(r.pd)
	delete(d.mem.regions, i)
	d.mem.showRegion(i, false, false)
	return true
}

func (r *region) release() error {
	if r.window != nil {
		return r.window.Free()
	}
	return r.region.Deregister()
}

// register makes what the registers of an element describe, or returns nil if they contradict
// each other.
func (d *dataPath) register(i uint32, c regs.MrControl) *region {
	e := regs.MrOf(d.in, int(i))
	r := &region{pd: e.Domain().Pd()}
	key := e.Key()
	if key>>16 != i {
		return nil
	}
	var err error
	d.mem.openPD(r.pd)
	switch c.Kind() {
	case regs.MrKindWindow:
		r.window, err = d.mem.table().AllocWindowKey(r.pd, key)
	case regs.MrKindPlain, regs.MrKindDistribution, regs.MrKindTaskQueue:
		pages := d.mem.pages(e)
		if pages == nil {
			err = errBeyond
			break
		}
		s := mr.Spec{PD: r.pd, Key: key, Access: rightsOf(c), Pages: pages, VA: e.Va(), Invalidatable: c.Invalidatable()}
		var f engine.Distribution
		if c.Kind() == regs.MrKindDistribution {
			if r.group = d.groups[c.Group()]; r.group == nil {
				err = errNoGroup
				break
			}
			s.Arrived = f.Arrived
		}
		if c.Kind() == regs.MrKindTaskQueue {
			if r.tasks, err = d.newTaskQueue(i, e, c); err != nil {
				break
			}
		}
		if r.region, err = d.mem.table().Register(s); err == nil && r.group != nil {
			if err = d.distribute(&f, r); err != nil {
				_ = r.region.Deregister() // nothing uses it yet
			}
		}
	}
	if err != nil {
		d.mem.closePD(r.pd)
		return nil
	}
	return r
}

func rightsOf(c regs.MrControl) (a verbs.Access) {
	for _, r := range []struct {
		on    bool
		right verbs.Access
	}{
		{c.LocalWrite(), verbs.AccessLocalWrite}, {c.RemoteWrite(), verbs.AccessRemoteWrite}, {c.RemoteRead(), verbs.AccessRemoteRead},
		{c.RemoteAtomic(), verbs.AccessRemoteAtomic}, {c.BindWindows(), verbs.AccessBindWindows}, {c.ZeroBased(), verbs.AccessZeroBased},
	} {
		if r.on {
			a |= r.right
		}
	}
	return a
}

// pages reads the entries of the MTT that a region names, or returns nil if they do not exist
// or lie outside of the DDR.
func (d *memoryTable) pages(e regs.Mr) *mr.Pages {
	shift := e.Pages().PageShift()
	first, length := uint64(e.FirstByte()), e.Length()
	if shift < 12 || shift > 30 || length > hwoffload.DDRBytes { // package mr checks the rest
		return nil
	}
	count := (first + length + 1<<shift - 1) >> shift
	from := uint64(e.MttFirst())
	if from >= regs.MttCount || count > regs.MttCount-from {
		return nil
	}
	p := &mr.Pages{Backend: d.ddr, PageSize: 1 << shift, First: first, Length: length, Addrs: make([]uint64, count)}
	for i := range p.Addrs {
		p.Addrs[i] = regs.MttOf(d.in, int(from)+i).Page().PageAddress()
	}
	return p
}

// openPD has the table know a protection domain, whose number the driver chose; closePD has it
// forget one that nothing uses.
func (d *memoryTable) openPD(pd uint32) { d.table().OpenPD(pd) }

func (d *memoryTable) closePD(pd uint32) { _ = d.table().FreePD(pd) } // ErrBusy: it is in use
