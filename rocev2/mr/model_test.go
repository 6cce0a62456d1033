// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The model: a region is a list of where its bytes are, one by one, and every rule
// is looked up anew for each access. It is slow and has no arithmetic that could wrap.

type modelRegion struct {
	real        *Region
	spec        Spec
	key         uint32
	va          uint64
	cells       []*byte // bytes of the model's memory
	invalid     bool
	windows     int
	placeOfCell []int // addresses of the cells, modulo 8
}

type modelWindow struct {
	real   *Window
	pd     uint32
	key    uint32
	bound  bool
	qpn    uint32
	access verbs.Access
	va     uint64
	cells  []*byte
	region *modelRegion
}

type model struct {
	table   *Table
	pds     []uint32
	host    []byte
	banks   *banks
	mHost   []byte
	mBanks  [4][]byte
	regions []*modelRegion
	windows []*modelWindow
	oldKeys []uint32
}

func newModel(t *rapid.T) *model {
	table, err := New(Config{Keys: 256})
	if err != nil {
		t.Fatal(err)
	}
	m := &model{table: table, host: make([]byte, 128), mHost: make([]byte, 128), banks: newBanks(64)}
	for i := range m.mBanks {
		m.mBanks[i] = make([]byte, 64)
	}
	m.pds = []uint32{table.AllocPD(), table.AllocPD()}
	return m
}

var rights = rapid.Custom(func(t *rapid.T) verbs.Access {
	if rapid.Bool().Draw(t, "all rights") {
		return everything
	}
	return verbs.Access(rapid.Uint8Range(0, uint8(allRights)).Draw(t, "rights"))
})

// drawSpec draws a region that may or may not be refused, and where its bytes are.
func (m *model) drawSpec(t *rapid.T) (s Spec, cells []*byte, place []int) {
	s = Spec{
		PD: rapid.SampledFrom(m.pds).Draw(t, "pd"), Access: rights.Draw(t, "rights"),
		Invalidatable: rapid.Bool().Draw(t, "invalidatable"),
	}
	if s.Access&verbs.AccessZeroBased == 0 {
		s.VA = rapid.SampledFrom([]uint64{8, 4096, 4099, 1 << 63, math.MaxUint64 - 63, math.MaxUint64 - 7}).Draw(t, "va")
	}
	if rapid.Bool().Draw(t, "host") {
		from := rapid.IntRange(0, 127).Draw(t, "from")
		to := rapid.IntRange(from+1, 128).Draw(t, "to")
		s.Host = m.host[from:to]
		for i := from; i < to; i++ {
			cells, place = append(cells, &m.mHost[i]), append(place, i%8) // make aligns 128 bytes
		}
		return
	}
	p := &Pages{Backend: m.banks, PageSize: 16}
	n := rapid.IntRange(1, 4).Draw(t, "pages")
	p.First = rapid.Uint64Range(0, 15).Draw(t, "first")
	p.Length = uint64(n)*16 - p.First - rapid.Uint64Range(0, min(15, uint64(n)*16-p.First-1)).Draw(t, "unused")
	p.Addrs = make([]uint64, (p.First+p.Length+15)/16)
	for i := range p.Addrs {
		p.Addrs[i] = bankAddr(rapid.Uint64Range(0, 3).Draw(t, "bank"), 16*rapid.Uint64Range(0, 3).Draw(t, "page"))
	}
	for i := p.First; i < p.First+p.Length; i++ {
		a := p.Addrs[i/16]
		cells, place = append(cells, &m.mBanks[a>>40][a&0xff+i%16]), append(place, int(i%8))
	}
	s.Pages = p
	return
}

// atomicsFit reports whether addresses from va on and places agree modulo 8.
func atomicsFit(va uint64, place []int) bool { return int(va%8) == place[0] }

// wanted reports whether a region with this spec must be accepted.
func wanted(s Spec, cells []*byte, place []int) bool {
	if s.Access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && s.Access&verbs.AccessLocalWrite == 0 {
		return false
	}
	if s.VA >= 1<<63+1 && uint64(len(cells)) > -s.VA {
		return false
	}
	return s.Access&verbs.AccessRemoteAtomic == 0 || atomicsFit(s.VA, place)
}

func (m *model) register(t *rapid.T) {
	if len(m.regions) > 5 {
		return
	}
	s, cells, place := m.drawSpec(t)
	r, err := m.table.Register(s)
	if (err == nil) != wanted(s, cells, place) {
		t.Fatalf("register %+v: %v", s, err)
	}
	if err == nil {
		m.regions = append(m.regions, &modelRegion{real: r, spec: s, key: r.LKey(), va: r.VA(), cells: cells, placeOfCell: place})
	}
}

func (m *model) reregister(t *rapid.T) {
	if len(m.regions) == 0 {
		return
	}
	r := rapid.SampledFrom(m.regions).Draw(t, "region")
	s, cells, place := m.drawSpec(t)
	err := r.real.Reregister(s)
	if (err == nil) != (wanted(s, cells, place) && r.windows == 0) {
		t.Fatalf("reregister %+v with %d windows: %v", s, r.windows, err)
	}
	if err == nil {
		m.oldKeys = append(m.oldKeys, r.key)
		*r = modelRegion{real: r.real, spec: s, key: r.real.LKey(), va: r.real.VA(), cells: cells, placeOfCell: place}
	}
}

func (m *model) deregister(t *rapid.T) {
	if len(m.regions) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.regions)-1).Draw(t, "region")
	r := m.regions[i]
	err := r.real.Deregister()
	if r.windows > 0 && !errors.Is(err, verbs.ErrBusy) || r.windows == 0 && err != nil {
		t.Fatalf("deregister with %d windows: %v", r.windows, err)
	}
	if err == nil {
		m.oldKeys = append(m.oldKeys, r.key)
		m.regions = append(m.regions[:i], m.regions[i+1:]...)
	}
}

func (m *model) allocWindow(t *rapid.T) {
	if len(m.windows) > 3 {
		return
	}
	pd := rapid.SampledFrom(m.pds).Draw(t, "pd")
	w, err := m.table.AllocWindow(pd)
	if err != nil {
		t.Fatal(err)
	}
	m.windows = append(m.windows, &modelWindow{real: w, pd: pd, key: w.RKey()})
}

func (m *model) freeWindow(t *rapid.T) {
	if len(m.windows) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.windows)-1).Draw(t, "window")
	w := m.windows[i]
	if err := w.real.Free(); err != nil {
		t.Fatal(err)
	}
	w.unbind()
	m.oldKeys = append(m.oldKeys, w.key)
	m.windows = append(m.windows[:i], m.windows[i+1:]...)
}

func (w *modelWindow) unbind() {
	if w.bound {
		w.bound = false
		w.region.windows--
	}
}

// drawKey draws a key that exists, that existed, or that is wrong in one bit.
func (m *model) drawKey(t *rapid.T) uint32 {
	keys := append([]uint32{0}, m.oldKeys...)
	for _, r := range m.regions {
		keys = append(keys, r.key, r.key)
	}
	for _, w := range m.windows {
		keys = append(keys, w.key, w.key)
	}
	key := rapid.SampledFrom(keys).Draw(t, "key index") // keys are random: only the place is drawn
	if rapid.IntRange(0, 15).Draw(t, "wrong key") == 0 {
		key ^= 1 << rapid.IntRange(0, 31).Draw(t, "bit")
	}
	return key
}

func (m *model) lookup(key uint32) (*modelRegion, *modelWindow) {
	for _, r := range m.regions {
		if r.key == key {
			return r, nil
		}
	}
	for _, w := range m.windows {
		if w.key == key {
			return nil, w
		}
	}
	return nil, nil
}

// lookupWindow is lookup for a bind, to which the consumer's bits of the window's key do not matter.
func (m *model) lookupWindow(key uint32) *modelWindow {
	for _, w := range m.windows {
		if (w.key^key)>>consumerBits == 0 {
			return w
		}
	}
	return nil
}

// inside returns the cells that n bytes at addr are, or nil. It goes address by
// address.
func inside(va uint64, cells []*byte, addr uint64, n uint64) []*byte {
	for i := range cells {
		if va+uint64(i) == addr && n <= uint64(len(cells)-i) {
			return cells[i : i+int(n)]
		}
	}
	return nil
}

// judge is the rule book.
func (m *model) judge(pd, qpn, key uint32, addr, n uint64, need verbs.Access, remote bool) ([]*byte, mem.Fault) {
	r, w := m.lookup(key)
	switch {
	case r == nil && w == nil || w != nil && !remote:
		return nil, mem.FaultKey
	case r != nil && r.spec.PD != pd || w != nil && w.pd != pd || w != nil && w.bound && w.qpn != qpn:
		return nil, mem.FaultPD
	case r != nil && r.invalid || w != nil && !w.bound:
		return nil, mem.FaultState
	}
	var cells []*byte
	var access verbs.Access
	if r != nil {
		cells, access = inside(r.va, r.cells, addr, n), r.spec.Access
	} else {
		cells, access = inside(w.va, w.cells, addr, n), w.access
	}
	switch {
	case cells == nil:
		return nil, mem.FaultRange
	case access&need != need:
		return nil, mem.FaultRights
	}
	return cells, mem.FaultNone
}

func (m *model) bind(t *rapid.T) {
	pd, qpn := rapid.SampledFrom(m.pds).Draw(t, "pd"), rapid.Uint32Range(1, 2).Draw(t, "qpn")
	b := verbs.Bind{
		Window: m.drawKey(t), Region: m.drawKey(t), Access: rights.Draw(t, "rights") &^ (verbs.AccessLocalWrite | verbs.AccessBindWindows),
		Length: rapid.Uint64Range(0, 40).Draw(t, "length"), NewKey: rapid.Uint8().Draw(t, "new key"),
	}
	b.Addr = m.drawAddr(t, b.Region)
	w := m.lookupWindow(b.Window)
	r, _ := m.lookup(b.Region)
	want := mem.FaultNone
	var cells []*byte
	var place []int
	va := b.Addr
	if b.Access&verbs.AccessZeroBased != 0 {
		va = 0
	}
	switch {
	case w == nil || r == nil:
		want = mem.FaultKey
	case w.pd != pd || r.spec.PD != pd:
		want = mem.FaultPD
	case w.bound || r.invalid:
		want = mem.FaultState
	case b.Length == 0 || inside(r.va, r.cells, b.Addr, b.Length) == nil:
		want = mem.FaultRange
	case r.spec.Access&verbs.AccessBindWindows == 0 || r.spec.Access&verbs.AccessZeroBased != 0,
		b.Access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && r.spec.Access&verbs.AccessLocalWrite == 0:
		want = mem.FaultRights
	default:
		cells, place = inside(r.va, r.cells, b.Addr, b.Length), r.placeOfCell[b.Addr-r.va:]
		if b.Access&verbs.AccessRemoteAtomic != 0 && !atomicsFit(va, place) {
			want = mem.FaultAlign
		}
	}
	if got := m.table.BindWindow(pd, qpn, b); got != want {
		t.Fatalf("bind %+v: %v, want %v", b, got, want)
	}
	if want != mem.FaultNone {
		return
	}
	if newKey := w.key&^0xff | uint32(b.NewKey); newKey != w.key {
		m.oldKeys = append(m.oldKeys, w.key)
		w.key = newKey
	}
	w.bound, w.qpn, w.access, w.va, w.cells, w.region = true, qpn, b.Access, va, cells, r
	r.windows++
}

func (m *model) invalidate(t *rapid.T) {
	pd, qpn := rapid.SampledFrom(m.pds).Draw(t, "pd"), rapid.Uint32Range(1, 2).Draw(t, "qpn")
	key, remote := m.drawKey(t), rapid.Bool().Draw(t, "remote")
	r, w := m.lookup(key)
	want := mem.FaultNone
	switch {
	case r == nil && w == nil:
		want = mem.FaultKey
	case r != nil && r.spec.PD != pd || w != nil && w.pd != pd:
		want = mem.FaultPD
	case r != nil && r.invalid || w != nil && !w.bound:
		want = mem.FaultState
	case w != nil && w.qpn != qpn:
		want = mem.FaultPD
	case r != nil && (!r.spec.Invalidatable || remote && r.spec.Access&remoteRights == 0):
		want = mem.FaultRights
	case r != nil && r.windows > 0:
		want = mem.FaultState
	}
	got := mem.FaultNone
	if remote {
		got = m.table.InvalidateRemote(pd, qpn, key)
	} else {
		got = m.table.InvalidateLocal(pd, qpn, key)
	}
	if got != want {
		t.Fatalf("invalidate, remote %v: %v, want %v", remote, got, want)
	}
	if want != mem.FaultNone {
		return
	}
	if w != nil {
		w.unbind()
	} else {
		r.invalid = true
	}
}

func (m *model) releaseQP(t *rapid.T) {
	qpn := rapid.Uint32Range(1, 2).Draw(t, "qpn")
	m.table.ReleaseQP(qpn)
	for _, w := range m.windows {
		if w.bound && w.qpn == qpn {
			w.unbind()
		}
	}
}

// drawAddr draws an address in or close to what the key stands for, or any.
func (m *model) drawAddr(t *rapid.T, key uint32) uint64 {
	r, w := m.lookup(key)
	off := uint64(rapid.Int64Range(-2, 130).Draw(t, "offset"))
	switch {
	case rapid.IntRange(0, 15).Draw(t, "wild") == 0:
		return rapid.Uint64().Draw(t, "addr")
	case r != nil:
		return r.va + off
	case w != nil:
		return w.va + off
	}
	return off
}

func (m *model) access(t *rapid.T) {
	pd, qpn := rapid.SampledFrom(m.pds).Draw(t, "pd"), rapid.Uint32Range(1, 2).Draw(t, "qpn")
	key := m.drawKey(t)
	addr := m.drawAddr(t, key)
	n := rapid.IntRange(0, 40).Draw(t, "n")
	data := rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "data")
	kind := rapid.SampledFrom([]string{"read local", "write local", "read remote", "write remote", "add", "swap"}).Draw(t, "kind")

	need := map[string]verbs.Access{"write local": verbs.AccessLocalWrite, "read remote": verbs.AccessRemoteRead, "write remote": verbs.AccessRemoteWrite,
		"add": verbs.AccessRemoteAtomic, "swap": verbs.AccessRemoteAtomic}[kind]
	atomic := kind == "add" || kind == "swap"
	remote := atomic || kind == "read remote" || kind == "write remote"
	if atomic {
		n = 8
	}
	cells, want := m.judge(pd, qpn, key, addr, uint64(n), need, remote)
	if n == 0 {
		cells, want = nil, mem.FaultNone
	}
	if check := m.check(pd, qpn, key, addr, uint32(n), need, remote); check != want {
		t.Fatalf("check of %s, %d bytes at %#x: %v, want %v", kind, n, addr, check, want)
	}
	if atomic && want == mem.FaultNone && addr%8 != 0 {
		cells, want = nil, mem.FaultAlign
	}
	before := make([]byte, len(cells))
	for i, c := range cells {
		before[i] = *c
	}

	var got mem.Fault
	switch kind {
	case "read local", "read remote":
		out := make([]byte, n)
		if remote {
			got = m.table.ReadRemote(pd, qpn, key, addr, out)
		} else {
			got = m.table.ReadLocal(pd, key, addr, out)
		}
		if got == mem.FaultNone && want == got && !bytes.Equal(out, before) {
			t.Fatalf("%s of %d bytes at %#x: %x, want %x", kind, n, addr, out, before)
		}
	case "write local", "write remote":
		if remote {
			got = m.table.WriteRemote(pd, qpn, key, addr, data)
		} else {
			got = m.table.WriteLocal(pd, key, addr, data)
		}
		for i, c := range cells {
			*c = data[i]
		}
	default:
		operand := rapid.Uint64().Draw(t, "operand")
		var compare, old uint64
		if want == mem.FaultNone && rapid.Bool().Draw(t, "equal") {
			compare = native.Uint64(before)
		}
		if kind == "add" {
			old, got = m.table.FetchAdd(pd, qpn, key, addr, operand)
		} else {
			old, got = m.table.CompareSwap(pd, qpn, key, addr, compare, operand)
		}
		if want == mem.FaultNone {
			is := native.Uint64(before)
			if old != is {
				t.Fatalf("%s returned %#x, want %#x", kind, old, is)
			}
			after := is
			if kind == "add" {
				after += operand
			} else if is == compare {
				after = operand
			}
			var b [8]byte
			native.PutUint64(b[:], after)
			for i, c := range cells {
				*c = b[i]
			}
		}
	}
	if got != want {
		t.Fatalf("%s of %d bytes at %#x: %v, want %v", kind, n, addr, got, want)
	}
}

func (m *model) check(pd, qpn, key uint32, addr uint64, n uint32, need verbs.Access, remote bool) mem.Fault {
	if remote {
		return m.table.CheckRemote(pd, qpn, key, addr, n, need)
	}
	return m.table.CheckLocal(pd, key, addr, n, need)
}

// same fails unless all memory, inside and outside of regions, is the model's.
func (m *model) same(t *rapid.T) {
	if !bytes.Equal(m.host, m.mHost) {
		t.Fatalf("host memory differs:\n%x, want\n%x", m.host, m.mHost)
	}
	for i := range m.mBanks {
		if !bytes.Equal(m.banks.bank[i], m.mBanks[i]) {
			t.Fatalf("bank %d differs:\n%x, want\n%x", i, m.banks.bank[i], m.mBanks[i])
		}
	}
}

// finish removes everything; what then is left was leaked.
func (m *model) finish(t *rapid.T) {
	for _, w := range m.windows {
		if err := w.real.Free(); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range m.regions {
		if err := r.real.Deregister(); err != nil {
			t.Fatal(err)
		}
	}
	for _, pd := range m.pds {
		if err := m.table.FreePD(pd); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.table.keys.free); n != 256 || len(m.table.bound) != 0 {
		t.Fatal(fmt.Errorf("%d of 256 keys are free, windows bound: %v", n, m.table.bound))
	}
}

func againstModel(t *rapid.T) {
	m := newModel(t)
	defer m.finish(t)
	m.register(t)
	t.Repeat(map[string]func(*rapid.T){
		"register": m.register, "reregister": m.reregister, "deregister": m.deregister,
		"alloc window": m.allocWindow, "free window": m.freeWindow,
		"bind": m.bind, "bind 2": m.bind, "bind 3": m.bind,
		"invalidate": m.invalidate, "release qp": m.releaseQP,
		"access": m.access, "access 2": m.access, "access 3": m.access, "access 4": m.access, "access 5": m.access,
		"": m.same,
	})
}

// TestAgainstModel: any sequence of registrations, binds, invalidations and
// accesses has the faults and leaves the memory of a simple model.
func TestAgainstModel(t *testing.T) { rapid.Check(t, againstModel) }

func FuzzAgainstModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(againstModel)) }
