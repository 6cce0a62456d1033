// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"encoding/binary"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

type testRegion struct {
	base   uint64
	data   []byte
	rights verbs.Access
	gone   bool // invalidated
}

// testMemory is a memory of a few regions, all in protection domain testPD. lkey and rkey
// of a region are the same.
type testMemory struct {
	regions map[uint32]*testRegion
	broken  bool          // the next access fails with FaultBackend
	ended   []mem.Arrival // WRITEs that have arrived as a whole
}

func newTestMemory() *testMemory { return &testMemory{regions: map[uint32]*testRegion{}} }

func (m *testMemory) add(key uint32, base uint64, size int, rights verbs.Access) []byte {
	r := &testRegion{base: base, data: make([]byte, size), rights: rights}
	m.regions[key] = r
	return r.data
}

func (m *testMemory) at(pd, key uint32, addr uint64, n int, need verbs.Access) ([]byte, mem.Fault) {
	r := m.regions[key]
	switch {
	case n == 0:
		return nil, mem.FaultNone
	case m.broken:
		return nil, mem.FaultBackend
	case r == nil:
		return nil, mem.FaultKey
	case pd != testPD:
		return nil, mem.FaultPD
	case r.gone:
		return nil, mem.FaultState
	case r.rights&need != need:
		return nil, mem.FaultRights
	case addr < r.base || addr-r.base > uint64(len(r.data)) || uint64(n) > uint64(len(r.data))-(addr-r.base):
		return nil, mem.FaultRange
	}
	off := addr - r.base
	return r.data[off : off+uint64(n)], mem.FaultNone
}

func (m *testMemory) CheckLocal(pd, key uint32, addr uint64, n uint32, need verbs.Access) mem.Fault {
	_, f := m.at(pd, key, addr, int(n), need)
	return f
}

func (m *testMemory) ReadLocal(pd, key uint32, addr uint64, dst []byte) mem.Fault {
	b, f := m.at(pd, key, addr, len(dst), 0)
	copy(dst, b)
	return f
}

func (m *testMemory) WriteLocal(pd, key uint32, addr uint64, src []byte) mem.Fault {
	b, f := m.at(pd, key, addr, len(src), verbs.AccessLocalWrite)
	copy(b, src)
	return f
}

func (m *testMemory) CheckRemote(pd, _, key uint32, addr uint64, n uint32, need verbs.Access) mem.Fault {
	_, f := m.at(pd, key, addr, int(n), need)
	return f
}

func (m *testMemory) ReadRemote(pd, _, key uint32, addr uint64, dst []byte) mem.Fault {
	b, f := m.at(pd, key, addr, len(dst), verbs.AccessRemoteRead)
	copy(dst, b)
	return f
}

func (m *testMemory) WriteRemote(pd, _, key uint32, addr uint64, src []byte) mem.Fault {
	b, f := m.at(pd, key, addr, len(src), verbs.AccessRemoteWrite)
	copy(b, src)
	return f
}

func (m *testMemory) EndWrite(_ uint32, a mem.Arrival) { m.ended = append(m.ended, a) }

func (m *testMemory) CompareSwap(pd, _, key uint32, addr uint64, compare, swap uint64) (uint64, mem.Fault) {
	b, f := m.at(pd, key, addr, 8, verbs.AccessRemoteAtomic)
	if f != mem.FaultNone {
		return 0, f
	}
	was := binary.NativeEndian.Uint64(b)
	if was == compare {
		binary.NativeEndian.PutUint64(b, swap)
	}
	return was, f
}

func (m *testMemory) FetchAdd(pd, _, key uint32, addr uint64, add uint64) (uint64, mem.Fault) {
	b, f := m.at(pd, key, addr, 8, verbs.AccessRemoteAtomic)
	if f != mem.FaultNone {
		return 0, f
	}
	was := binary.NativeEndian.Uint64(b)
	binary.NativeEndian.PutUint64(b, was+add)
	return was, f
}

func (m *testMemory) InvalidateRemote(pd, _, key uint32) mem.Fault {
	r := m.regions[key]
	switch {
	case r == nil:
		return mem.FaultKey
	case r.gone:
		return mem.FaultState
	}
	r.gone = true
	return mem.FaultNone
}

func (m *testMemory) InvalidateLocal(pd, qpn, key uint32) mem.Fault {
	return m.InvalidateRemote(pd, qpn, key)
}

func (m *testMemory) BindWindow(pd, qpn uint32, b verbs.Bind) mem.Fault { return mem.FaultKey }
