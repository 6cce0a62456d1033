// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"encoding/binary"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Memory is a mem.Memory to compare with: regions and windows in a map, checked in
// the order in which IBTA 10.6 lists the rules.
type Memory struct {
	Atomics int // executed

	regions map[uint32]*Region
	next    uint32
}

// Region is a memory region, or a window on one.
type Region struct {
	Key     uint32 // lkey and rkey
	PD      uint32
	Addr    uint64
	Data    []byte
	Access  verbs.Access
	Invalid bool

	Of  *Region // a window: the region below it
	QPN uint32  // a window: of this queue pair only

	// Written, if set, is called before bytes change: at offset off there will be
	// data. qpn is the queue pair of the packet, or 0 for a local access.
	Written func(qpn uint32, off int, data []byte)
}

// Register makes a region of n bytes. Regions are far apart, so that an access which
// runs over the end of one never lands in another.
func (m *Memory) Register(pd uint32, n int, a verbs.Access) *Region {
	m.next++
	r := &Region{
		Key: m.next<<8 | 0x5A, PD: pd, Addr: uint64(m.next) << 32,
		Data: make([]byte, n), Access: a,
	}
	m.put(r)
	return r
}

// AllocWindow makes a window that is bound to nothing yet.
func (m *Memory) AllocWindow(pd uint32) *Region {
	m.next++
	r := &Region{Key: m.next<<8 | 0xA5, PD: pd, Invalid: true, Of: &Region{}}
	m.put(r)
	return r
}

func (m *Memory) put(r *Region) {
	if m.regions == nil {
		m.regions = map[uint32]*Region{}
	}
	m.regions[r.Key] = r
}

// Region returns what key names, or nil.
func (m *Memory) Region(key uint32) *Region { return m.regions[key] }

func (m *Memory) find(pd, key uint32, addr uint64, n uint32, need verbs.Access) (*Region, []byte, mem.Fault) {
	r := m.regions[key]
	switch {
	case r == nil:
		return nil, nil, mem.FaultKey
	case r.PD != pd:
		return nil, nil, mem.FaultPD
	case r.Invalid:
		return nil, nil, mem.FaultState
	}
	off := addr
	if r.Access&verbs.AccessZeroBased == 0 {
		if addr < r.Addr {
			return nil, nil, mem.FaultRange
		}
		off -= r.Addr
	}
	if off > uint64(len(r.Data)) || uint64(n) > uint64(len(r.Data))-off {
		return nil, nil, mem.FaultRange
	}
	if r.Access&need != need {
		return nil, nil, mem.FaultRights
	}
	return r, r.Data[off : off+uint64(n)], mem.FaultNone
}

func (m *Memory) findLocal(pd, key uint32, addr uint64, n uint32, need verbs.Access) (*Region, []byte, mem.Fault) {
	r, b, f := m.find(pd, key, addr, n, need)
	if f == mem.FaultNone && r.Of != nil {
		return nil, nil, mem.FaultKey // a window has no lkey
	}
	return r, b, f
}

func (m *Memory) findRemote(pd, qpn, key uint32, addr uint64, n uint32, need verbs.Access) (*Region, []byte, mem.Fault) {
	r, b, f := m.find(pd, key, addr, n, need)
	if f == mem.FaultNone && r.Of != nil && (r.QPN != qpn || r.Of.Invalid) {
		return nil, nil, mem.FaultPD
	}
	return r, b, f
}

func (r *Region) write(qpn uint32, b, src []byte) {
	if r.Written != nil {
		r.Written(qpn, cap(r.Data)-cap(b), src)
	}
	copy(b, src)
}

// CheckLocal is that of mem.Memory, as the following.
func (m *Memory) CheckLocal(pd, lkey uint32, addr uint64, n uint32, need verbs.Access) mem.Fault {
	if n == 0 {
		return mem.FaultNone
	}
	_, _, f := m.findLocal(pd, lkey, addr, n, need)
	return f
}

func (m *Memory) ReadLocal(pd, lkey uint32, addr uint64, dst []byte) mem.Fault {
	if len(dst) == 0 {
		return mem.FaultNone
	}
	_, b, f := m.findLocal(pd, lkey, addr, uint32(len(dst)), 0)
	copy(dst, b)
	return f
}

func (m *Memory) WriteLocal(pd, lkey uint32, addr uint64, src []byte) mem.Fault {
	if len(src) == 0 {
		return mem.FaultNone
	}
	r, b, f := m.findLocal(pd, lkey, addr, uint32(len(src)), verbs.AccessLocalWrite)
	if f == mem.FaultNone {
		r.write(0, b, src)
	}
	return f
}

func (m *Memory) CheckRemote(pd, qpn, rkey uint32, addr uint64, n uint32, need verbs.Access) mem.Fault {
	if n == 0 {
		return mem.FaultNone
	}
	_, _, f := m.findRemote(pd, qpn, rkey, addr, n, need)
	return f
}

func (m *Memory) ReadRemote(pd, qpn, rkey uint32, addr uint64, dst []byte) mem.Fault {
	if len(dst) == 0 {
		return mem.FaultNone
	}
	_, b, f := m.findRemote(pd, qpn, rkey, addr, uint32(len(dst)), verbs.AccessRemoteRead)
	copy(dst, b)
	return f
}

func (m *Memory) WriteRemote(pd, qpn, rkey uint32, addr uint64, src []byte) mem.Fault {
	if len(src) == 0 {
		return mem.FaultNone
	}
	r, b, f := m.findRemote(pd, qpn, rkey, addr, uint32(len(src)), verbs.AccessRemoteWrite)
	if f == mem.FaultNone {
		r.write(qpn, b, src)
	}
	return f
}

// EndWrite forwards nothing.
func (m *Memory) EndWrite(uint32, mem.Arrival) {}

func (m *Memory) CompareSwap(pd, qpn, rkey uint32, addr uint64, compare, swap uint64) (uint64, mem.Fault) {
	return m.atomic(pd, qpn, rkey, addr, func(v uint64) uint64 {
		if v == compare {
			return swap
		}
		return v
	})
}

func (m *Memory) FetchAdd(pd, qpn, rkey uint32, addr uint64, add uint64) (uint64, mem.Fault) {
	return m.atomic(pd, qpn, rkey, addr, func(v uint64) uint64 { return v + add })
}

func (m *Memory) atomic(pd, qpn, rkey uint32, addr uint64, f func(uint64) uint64) (uint64, mem.Fault) {
	r, b, fault := m.findRemote(pd, qpn, rkey, addr, 8, verbs.AccessRemoteAtomic)
	if fault != mem.FaultNone {
		return 0, fault
	}
	if addr%8 != 0 {
		return 0, mem.FaultAlign
	}
	m.Atomics++
	old := binary.NativeEndian.Uint64(b)
	r.write(qpn, b, binary.NativeEndian.AppendUint64(nil, f(old)))
	return old, mem.FaultNone
}

func (m *Memory) InvalidateRemote(pd, qpn, rkey uint32) mem.Fault {
	return m.invalidate(pd, qpn, rkey)
}

func (m *Memory) InvalidateLocal(pd, qpn, key uint32) mem.Fault {
	return m.invalidate(pd, qpn, key)
}

func (m *Memory) invalidate(pd, qpn, key uint32) mem.Fault {
	r := m.regions[key]
	switch {
	case r == nil:
		return mem.FaultKey
	case r.PD != pd || r.Of != nil && !r.Invalid && r.QPN != qpn:
		return mem.FaultPD
	case r.Invalid:
		return mem.FaultState
	}
	r.Invalid = true
	return mem.FaultNone
}

func (m *Memory) BindWindow(pd, qpn uint32, b verbs.Bind) mem.Fault {
	w := m.regions[b.Window]
	if w == nil || w.Of == nil {
		return mem.FaultKey
	}
	if !w.Invalid {
		return mem.FaultState
	}
	r, data, f := m.findLocal(pd, b.Region, b.Addr, uint32(b.Length), verbs.AccessBindWindows)
	if f != mem.FaultNone {
		return f
	}
	delete(m.regions, w.Key)
	w.Key = w.Key&^0xFF | uint32(b.NewKey)
	w.Of, w.QPN, w.Addr, w.Data, w.Access, w.Invalid = r, qpn, b.Addr, data, b.Access, false
	m.put(w)
	return mem.FaultNone
}

var _ mem.Memory = (*Memory)(nil)
