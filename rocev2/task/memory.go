// SPDX-License-Identifier: Apache-2.0

package task

import (
	"io"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Memory is what the tasks of an origin may access. Its methods are called by several
// goroutines at the same time. They do not block.
type Memory interface {
	// Check judges an access to an operand: need is 0 to read it, or AccessLocalWrite to
	// write it.
	Check(o *Operand, need verbs.Access) mem.Fault

	// Read copies an operand to dst, which has its length. Write copies src to it. An access
	// that faults has changed nothing, unless the fault is FaultBackend.
	Read(o *Operand, dst []byte) mem.Fault
	Write(o *Operand, src []byte) mem.Fault
}

// Local returns the memory of tasks of this host: keys are lkeys of a protection domain. To
// read needs no right, to write needs AccessLocalWrite. Operands with Origin are refused.
func Local(m mem.Memory, pd uint32) Memory { return local{m, pd} }

type local struct {
	m  mem.Memory
	pd uint32
}

func (l local) Check(o *Operand, need verbs.Access) mem.Fault {
	if o.Origin {
		return mem.FaultKey
	}
	return l.m.CheckLocal(l.pd, o.Key, o.VA, o.Length, need)
}

func (l local) Read(o *Operand, dst []byte) mem.Fault {
	if o.Origin {
		return mem.FaultKey
	}
	return l.m.ReadLocal(l.pd, o.Key, o.VA, dst)
}

func (l local) Write(o *Operand, src []byte) mem.Fault {
	if o.Origin {
		return mem.FaultKey
	}
	return l.m.WriteLocal(l.pd, o.Key, o.VA, src)
}

// Remote returns the memory of tasks that another node sends to queue pair qpn: keys are rkeys
// of the queue pair's protection domain. To read needs AccessRemoteRead, to write
// AccessRemoteWrite. Operands with Origin are refused.
func Remote(m mem.Memory, pd, qpn uint32) Memory { return remote{m, pd, qpn} }

type remote struct {
	m       mem.Memory
	pd, qpn uint32
}

func (r remote) Check(o *Operand, need verbs.Access) mem.Fault {
	if o.Origin {
		return mem.FaultKey
	}
	return r.m.CheckRemote(r.pd, r.qpn, o.Key, o.VA, o.Length, remoteRight(need))
}

func (r remote) Read(o *Operand, dst []byte) mem.Fault {
	if o.Origin {
		return mem.FaultKey
	}
	return r.m.ReadRemote(r.pd, r.qpn, o.Key, o.VA, dst)
}

func (r remote) Write(o *Operand, src []byte) mem.Fault {
	if o.Origin {
		return mem.FaultKey
	}
	return r.m.WriteRemote(r.pd, r.qpn, o.Key, o.VA, src)
}

// remoteRight is the right that another node needs.
func remoteRight(need verbs.Access) verbs.Access {
	if need == verbs.AccessLocalWrite {
		return verbs.AccessRemoteWrite
	}
	return verbs.AccessRemoteRead
}

// Regions is the memory of tasks of other nodes for an application that has the interfaces of
// package verbs only: regions that it has registered, in the protection domain of the queue
// pair. Rights are those that the region was added with. The zero value is ready for use.
type Regions struct {
	lock    sync.RWMutex
	regions map[uint32]region
}

type region struct {
	va, length uint64
	memory     interface {
		io.ReaderAt
		io.WriterAt
	}
	access verbs.Access
}

// Add lets tasks use the memory b of region m by its rkey, with AccessRemoteRead,
// AccessRemoteWrite or both.
func (r *Regions) Add(m verbs.MR, b []byte, access verbs.Access) error {
	if m.RKey() == 0 || uint64(len(b)) != m.Len() {
		return fail(StatusAccess, "a region of %d bytes with rkey %#x and a slice of %d bytes: register exactly this slice, with a remote right", m.Len(), m.RKey(), len(b))
	}
	r.add(m.RKey(), region{m.VA(), m.Len(), verbs.Bytes(b), access})
	return nil
}

// AddDM does so for a region that has its memory, as verbs.NewMemory makes it.
func (r *Regions) AddDM(m verbs.DM, access verbs.Access) error {
	if m.RKey() == 0 {
		return fail(StatusAccess, "a region of %d bytes without rkey: register it with a remote right", m.Len())
	}
	r.add(m.RKey(), region{m.VA(), m.Len(), m, access})
	return nil
}

func (r *Regions) add(rkey uint32, x region) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.regions == nil {
		r.regions = map[uint32]region{}
	}
	r.regions[rkey] = x
}

// Remove ends what Add began. When it returns, no task accesses the memory.
func (r *Regions) Remove(m verbs.MR) {
	r.lock.Lock()
	defer r.lock.Unlock()
	delete(r.regions, m.RKey())
}

// Check implements Memory.
func (r *Regions) Check(o *Operand, need verbs.Access) mem.Fault {
	r.lock.RLock()
	defer r.lock.RUnlock()
	_, _, f := r.find(o, remoteRight(need))
	return f
}

// Read implements Memory.
func (r *Regions) Read(o *Operand, dst []byte) mem.Fault {
	r.lock.RLock()
	defer r.lock.RUnlock()
	x, off, f := r.find(o, verbs.AccessRemoteRead)
	if f == mem.FaultNone {
		f = readAt(x.memory, dst, off)
	}
	return f
}

// Write implements Memory.
func (r *Regions) Write(o *Operand, src []byte) mem.Fault {
	r.lock.RLock()
	defer r.lock.RUnlock()
	x, off, f := r.find(o, verbs.AccessRemoteWrite)
	if f == mem.FaultNone {
		f = writeAt(x.memory, src, off)
	}
	return f
}

// find returns the region of an operand, and where the operand is in it. The lock must be held.
func (r *Regions) find(o *Operand, need verbs.Access) (have region, off int64, f mem.Fault) {
	have, ok := r.regions[o.Key]
	at := o.VA - have.va
	switch {
	case o.Origin || !ok:
		return have, 0, mem.FaultKey
	case at > have.length || uint64(o.Length) > have.length-at:
		return have, 0, mem.FaultRange
	case have.access&need != need:
		return have, 0, mem.FaultRights
	}
	return have, int64(at), mem.FaultNone
}

// readAt and writeAt access memory whose range was checked.
func readAt(m io.ReaderAt, dst []byte, off int64) mem.Fault {
	if n, _ := m.ReadAt(dst, off); n != len(dst) { // all bytes and io.EOF are possible
		return mem.FaultBackend
	}
	return mem.FaultNone
}

func writeAt(m io.WriterAt, src []byte, off int64) mem.Fault {
	if _, err := m.WriteAt(src, off); err != nil {
		return mem.FaultBackend
	}
	return mem.FaultNone
}
