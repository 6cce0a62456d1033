// SPDX-License-Identifier: Apache-2.0

package rtl_test

import (
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Rights of an access (IBTA 10.6.3).
const (
	remoteRights = verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	qpn          = 9 // of the queue pair that the accesses are for
)

// piece is contiguous memory.
type piece struct{ addr, bytes uint64 }

// region is a region of the world, or a window, as the test knows it.
type region struct {
	key       uint32
	pd        uint32
	va, bytes uint64
	shift     uint // log2 of the size of its pages
	first     uint64
}

// world has the same regions in a table of rocev2/mr and in registers of the card.
type world struct {
	r       *rand.Rand
	table   *mr.Table
	pds     []uint32
	regions []region
	bus     memory
	low     uint64 // elements of mtt from low to high are free
	high    uint64
	touched []piece
}

// ReadAt and the other methods note where the table touches memory.
func (w *world) ReadAt(dst []byte, addr uint64) error {
	w.touched = append(w.touched, piece{addr, uint64(len(dst))})
	return nil
}

func (w *world) WriteAt(src []byte, addr uint64) error { return w.ReadAt(src, addr) }

func (w *world) CompareSwap(addr, _, _ uint64) (uint64, error) { return w.FetchAdd(addr, 0) }

func (w *world) FetchAdd(addr, _ uint64) (uint64, error) {
	w.touched = append(w.touched, piece{addr, 8})
	return 0, nil
}

// newWorld makes n regions and windows.
func newWorld(t *testing.T, seed uint64, n int) *world {
	t.Helper()
	table, err := mr.New(mr.Config{}) // bits 16 to 31 of a key are its slot, as on the card
	if err != nil {
		t.Fatal(err)
	}
	w := &world{r: rand.New(rand.NewPCG(seed, 1)), table: table, bus: memory{}, high: regs.MttCount}
	for i := range 1<<16 + 1<<8 { // numbers with equal low bits
		if pd := table.AllocPD(); i&^0x10100 == 0 {
			w.pds = append(w.pds, pd)
		}
	}
	for range n {
		if w.r.IntN(10) == 0 {
			w.addWindow(t)
		} else {
			w.addRegion(t)
		}
	}
	return w
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// spec returns a random region. It may be one that the table refuses.
func (w *world) spec() mr.Spec {
	r := w.r
	shift := pick(r, 12, 12, 13, 16, 21, 30, uint(12+r.IntN(19)))
	size := uint64(1) << shift
	p := mr.Pages{Backend: w, PageSize: size, First: pick(r, 0, 0, 8, size-1, r.Uint64N(size))}
	n := 1 + r.IntN(8)
	for range n {
		addr := r.Uint64N(1<<34>>shift) << shift
		if k := len(p.Addrs); k > 0 && r.IntN(3) == 0 && p.Addrs[k-1]+size < 1<<34 {
			addr = p.Addrs[k-1] + size
		}
		p.Addrs = append(p.Addrs, addr)
	}
	room := uint64(n)*size - p.First
	p.Length = room - pick(r, 0, 0, 1, r.Uint64N(min(size, room)))
	s := mr.Spec{PD: pick(r, w.pds...), Pages: &p, Access: verbs.Access(r.IntN(64)), Invalidatable: r.IntN(2) == 0}
	if s.Access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 {
		s.Access |= verbs.AccessLocalWrite
	}
	if s.Access&verbs.AccessZeroBased == 0 {
		s.VA = pick(r, 0, r.Uint64(), -p.Length, -p.Length-1, 1<<32-p.Length/2, r.Uint64()&^7+p.First)
	}
	return s
}

// register registers a random region, again and again until its element is one of the card's.
func (w *world) register(t *testing.T) (*mr.Region, mr.Spec) {
	t.Helper()
	s := w.spec()
	for {
		added, err := w.table.Register(s)
		if err != nil { // an impossible one
			s = w.spec()
			continue
		}
		if uint64(added.LKey()>>16) < regs.MrCount {
			return added, s
		}
		if err := added.Deregister(); err != nil {
			t.Fatal(err)
		}
	}
}

// addRegion adds a region, and perhaps ends it.
func (w *world) addRegion(t *testing.T) {
	t.Helper()
	added, s := w.register(t)
	g := region{key: added.LKey(), pd: s.PD, va: s.VA, bytes: s.Pages.Length, first: s.Pages.First}
	for 1<<g.shift < s.Pages.PageSize {
		g.shift++
	}
	control, state := regs.MrControl(0).WithValid(true), regs.MrState(0).WithUsable(true)
	switch {
	case w.r.IntN(8) == 0:
		if err := added.Deregister(); err != nil {
			t.Fatal(err)
		}
		control = control.WithValid(false)
	case s.Invalidatable && w.r.IntN(4) == 0:
		if f := w.table.InvalidateLocal(s.PD, qpn, g.key); f != mem.FaultNone {
			t.Fatal(f)
		}
		state = state.WithInvalid(true)
	}
	w.regions = append(w.regions, g)
	w.write(&g, control|regs.MrControl(s.Access&31)<<1, state, s.Pages.Addrs)
}

// addWindow allocates a window that is not bound.
func (w *world) addWindow(t *testing.T) {
	t.Helper()
	g := region{pd: pick(w.r, w.pds...), shift: 12, va: w.r.Uint64(), bytes: 4096}
	for {
		window, err := w.table.AllocWindow(g.pd)
		if err != nil {
			t.Fatal(err)
		}
		if g.key = window.RKey(); uint64(g.key>>16) < regs.MrCount {
			w.regions = append(w.regions, g)
			w.write(&g, regs.MrControl(0).WithValid(true).WithKind(3), regs.MrState(0).WithUsable(true).WithInvalid(true), nil)
			return
		}
		if err := window.Free(); err != nil {
			t.Fatal(err)
		}
	}
}

// write writes a region's registers. Pages are taken from both ends of block mtt.
func (w *world) write(g *region, control regs.MrControl, state regs.MrState, pages []uint64) {
	n := uint64(len(pages))
	at := w.low
	if w.r.IntN(2) == 0 {
		w.high -= n
		at = w.high
	} else {
		w.low += n
	}
	for i, p := range pages {
		regs.MttOf(w.bus, int(at)+i).SetPage(regs.MttPage(0).WithPageAddress(p))
	}
	e := int(g.key >> 16)
	m := regs.MrOf(w.bus, e)
	m.SetKey(g.key)
	m.SetDomain(regs.MrDomain(0).WithPd(g.pd))
	m.SetPages(regs.MrPages(0).WithPageShift(uint32(g.shift)))
	m.SetVa(g.va)
	m.SetLength(g.bytes)
	m.SetMttFirst(uint32(at))
	m.SetFirstByte(uint32(g.first))
	m.SetControl(control)
	w.bus.W32(stateAddr(uint64(e)), uint32(state)) // the card's own
}

// stateAddr is the address of mr.state.
func stateAddr(element uint64) uint64 { return regs.MrBase + element*regs.MrStride + 0x28 }

// memory holds registers as words of 64 bits. It is a regs.Bus.
type memory map[uint64]uint64

func (m memory) R64(addr uint64) uint64    { return m[addr] }
func (m memory) W64(addr uint64, v uint64) { m[addr] = v }
func (m memory) R32(addr uint64) uint32    { return uint32(m[addr&^7] >> (addr & 4 * 8)) }

func (m memory) W32(addr uint64, v uint32) {
	shift := addr & 4 * 8
	m[addr&^7] = m[addr&^7]&^(0xffffffff<<shift) | uint64(v)<<shift
}
