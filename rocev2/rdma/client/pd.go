// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/mr/clientmem"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// PD is a protection domain. It implements verbs.PD.
type PD struct {
	d      *Device
	handle uint32
}

// AllocPD implements verbs.Device.
func (d *Device) AllocPD() (verbs.PD, error) {
	var r proto.Handle
	if err := d.plain(proto.TAllocPD, nil, &r); err != nil {
		return nil, err
	}
	return &PD{d, r.Handle}, nil
}

// Free implements verbs.PD.
func (p *PD) Free() error { return p.d.end(proto.TFreePD, p.handle) }

// MR is a memory region. It implements verbs.MR.
type MR struct {
	d                  *Device
	handle, lkey, rkey uint32
	va, n              uint64
	memory             []byte  // memory of the region; see regions
	buffer             *buffer // buffer of Alloc that has the memory; nil: other memory of the process
}

// RegMR implements verbs.PD. Memory that Alloc has returned, or a part of it, costs no copy.
func (p *PD) RegMR(b []byte, access verbs.Access) (verbs.MR, error) {
	return p.registerAt(b, addressFor(b, access), access)
}

// RegMRAt is RegMR with another address of the first byte: work requests and peers name the memory from va on, as
// with ibv_reg_mr_iova. With an address of 0 the region is zero-based.
func (p *PD) RegMRAt(b []byte, va uint64, access verbs.Access) (verbs.MR, error) {
	if va == 0 {
		access |= verbs.AccessZeroBased
	}
	return p.registerAt(b, va, access)
}

func (p *PD) registerAt(b []byte, va uint64, access verbs.Access) (verbs.MR, error) {
	m, err := p.register(b, va, access, nil)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// addressFor is the address by which peers name the first byte of a region of RegMR.
func addressFor(b []byte, access verbs.Access) uint64 {
	if access&verbs.AccessZeroBased != 0 {
		return 0
	}
	return addressOf(b)
}

func (p *PD) register(b []byte, va uint64, access verbs.Access, g mr.Group) (*MR, error) {
	d, group := p.d, proto.GroupOf(g)
	m, inArena, err := p.newMR(b, va, access, group)
	if err != nil {
		return nil, err
	}
	var r proto.RegReply
	if inArena != nil {
		err = d.plain(proto.TRegArena, inArena, &r)
	} else if err = d.passMemory(addressOf(b), m.n, access); err == nil {
		err = d.plain(proto.TRegMemory, &proto.RegMemory{PD: p.handle, Access: uint32(access), Addr: addressOf(b), Length: m.n, VA: m.va, Group: group}, &r)
	}
	return m, m.made(&r, err)
}

// newMR is a region that the server is to make, with the request if its memory is of Alloc. The memory is kept from
// now on.
func (p *PD) newMR(b []byte, va uint64, access verbs.Access, group proto.Group) (*MR, *proto.RegArena, error) {
	m := &MR{d: p.d, va: va, n: uint64(len(b)), memory: b}
	if len(b) == 0 {
		return nil, nil, fmt.Errorf("register: %w: a region of 0 bytes", verbs.ErrRange)
	}
	a, offset, err := p.d.arena.hold(m)
	if err != nil || a == nil {
		return m, nil, err
	}
	return m, &proto.RegArena{PD: p.handle, Arena: a.handle, Offset: offset, Length: m.n, VA: m.va, Access: uint32(access), Group: group}, nil
}

// made takes what the server has answered.
func (m *MR) made(r *proto.RegReply, err error) error {
	if err != nil && m.d.alive() == nil { // otherwise the server may have made the region, and be about to end it
		m.dropMemory()
	}
	m.handle, m.lkey, m.rkey = r.Handle, r.LKey, r.RKey
	return err
}

// memory is whether the server has the descriptor of this process's memory.
type memory struct {
	mu     sync.Mutex
	passed bool
}

// passMemory passes the server the descriptors by which it accesses memory of this process, once, and
// has the kernel provide the pages of the memory that is to be registered.
func (d *Device) passMemory(addr, n uint64, access verbs.Access) error {
	if err := clientmem.Populate(addr, n, access&verbs.AccessLocalWrite != 0); err != nil {
		return fmt.Errorf("register: %w: %w", proto.ErrMemory, err)
	}
	d.memory.mu.Lock()
	defer d.memory.mu.Unlock()
	if d.memory.passed {
		return nil
	}
	f, err := clientmem.Self()
	if err != nil {
		return fmt.Errorf("register: %w: %w", proto.ErrMemory, err)
	}
	defer f.Close()
	if _, err := d.callWith(proto.TPassMemory, nil, nil, f.FDs()...); err != nil {
		return err
	}
	d.memory.passed = true
	return nil
}

// VA implements verbs.MR.
func (m *MR) VA() uint64 { return m.va }

// Len implements verbs.MR.
func (m *MR) Len() uint64 { return m.n }

// LKey implements verbs.MR.
func (m *MR) LKey() uint32 { return m.lkey }

// RKey implements verbs.MR.
func (m *MR) RKey() uint32 { return m.rkey }

// MW is a memory window. It implements verbs.MW.
type MW struct {
	d      *Device
	handle uint32
	rkey   atomic.Uint32
}

// AllocMW implements verbs.PD.
func (p *PD) AllocMW() (verbs.MW, error) {
	var r proto.AllocMWReply
	if err := p.d.plain(proto.TAllocMW, &proto.Handle{Handle: p.handle}, &r); err != nil {
		return nil, err
	}
	w := &MW{d: p.d, handle: r.Handle}
	w.rkey.Store(r.RKey)
	return w, nil
}

// RKey implements verbs.MW. It asks the server, since a bind changes the key when it is executed.
// After the device's end it is the latest key that is known.
func (w *MW) RKey() uint32 {
	var r proto.AllocMWReply
	if w.d.plain(proto.TQueryMW, &proto.Handle{Handle: w.handle}, &r) == nil {
		w.rkey.Store(r.RKey)
	}
	return w.rkey.Load()
}

// Free implements verbs.MW.
func (w *MW) Free() error { return w.d.end(proto.TFreeMW, w.handle) }

// AH is an address handle. It implements verbs.AH.
type AH struct {
	pd     *PD
	handle uint32
	pmtu   uint32 // the longest datagram in bytes, when the handle was made; 0: not known
	gone   atomic.Bool
}

// CreateAH implements verbs.PD. PostSend refuses datagrams that are longer than the path's PMTU at the time of
// CreateAH. If the PMTU becomes smaller, longer datagrams are dropped by the server, as by a network.
func (p *PD) CreateAH(av verbs.AddressVector) (verbs.AH, error) {
	var r proto.CreateAHReply
	if err := p.d.plain(proto.TCreateAH, &proto.CreateAH{PD: p.handle, AV: proto.AVOf(av)}, &r); err != nil {
		return nil, err
	}
	return &AH{pd: p, handle: r.Handle, pmtu: r.PMTU}, nil
}

// carries refuses a message that is longer than the path's PMTU: a datagram is one packet.
func (a *AH) carries(wr *verbs.SendWR) error {
	n := uint64(len(wr.Data))
	for i := range wr.SGL {
		n += uint64(wr.SGL[i].Len)
	}
	if a.pmtu != 0 && n > uint64(a.pmtu) {
		return fmt.Errorf("%w: %d bytes, and the path of the address handle carries datagrams of %d", verbs.ErrTooLong, n, a.pmtu)
	}
	return nil
}

// Destroy implements verbs.AH.
func (a *AH) Destroy() error {
	if !a.gone.CompareAndSwap(false, true) {
		return fmt.Errorf("address handle %w", verbs.ErrDestroyed)
	}
	return a.pd.d.end(proto.TDestroyAH, a.handle)
}
