// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Window is a memory window of type 2B: a key to a part of a region that a work
// request binds and invalidates, without a call to the driver (IBTA 10.6.7.2).
type Window struct {
	table *Table
	slot  uint32
	pd    uint32

	// Guarded by the table's lock.
	entry *entry
	gone  bool
}

// AllocWindow makes a window that is not bound yet (IBTA 11.2.8, Allocate
// Memory Window).
func (t *Table) AllocWindow(pd uint32) (*Window, error) { return t.AllocWindowKey(pd, 0) }

// AllocWindowKey is AllocWindow with a first key, for a table whose Config has ChosenKeys.
func (t *Table) AllocWindowKey(pd, key uint32) (*Window, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.domains.acquire(pd); err != nil {
		return nil, fmt.Errorf("mr: allocate window: %w", err)
	}
	slot, key, err := t.takeKey(key)
	if err != nil {
		t.domains.release(pd)
		return nil, fmt.Errorf("mr: allocate window: %w", err)
	}
	w := &Window{table: t, slot: slot, pd: pd}
	w.setFree(key)
	return w, nil
}

// setFree puts an entry without memory in the table.
func (w *Window) setFree(key uint32) {
	w.entry = &entry{window: w, pd: w.pd, key: key}
	w.entry.close(mem.FaultState)
	w.table.slots[w.slot].Store(w.entry)
}

// RKey is the window's current key. A bind changes its low 8 bits.
func (w *Window) RKey() uint32 {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	return w.entry.key
}

// Free ends the window, bound or not, and waits for accesses through it (IBTA
// 11.2.8, Deallocate Memory Window).
func (w *Window) Free() error {
	t := w.table
	t.mu.Lock()
	if w.gone {
		t.mu.Unlock()
		return fmt.Errorf("mr: free window: the window %w", verbs.ErrDestroyed)
	}
	w.gone = true
	e := w.entry
	t.slots[w.slot].Store(nil)
	bound := t.unbind(e, mem.FaultKey)
	t.giveKey(w.slot)
	t.domains.release(w.pd)
	t.mu.Unlock()
	if bound {
		t.unbound(e)
	}
	return nil
}

// unbind closes a window's entry and reports whether it was bound. If so, the
// caller must call unbound once it has let go of the table's lock, which it holds now.
func (t *Table) unbind(e *entry, f mem.Fault) bool {
	bound := e.closed.Load() == 0
	e.close(f)
	if !bound {
		return false
	}
	of := t.bound[e.qpn]
	delete(of, e.window)
	if len(of) == 0 {
		delete(t.bound, e.qpn)
	}
	return true
}

// unbound waits for the accesses through a binding to end. Only then may the
// region be deregistered. The old entry goes, or it would keep the region's memory
// from being collected.
func (t *Table) unbound(e *entry) {
	e.drain()
	t.mu.Lock()
	defer t.mu.Unlock()
	e.region.windows--
	if w := e.window; w.entry == e && !w.gone {
		w.setFree(e.key)
	}
}

// ReleaseQP unbinds all windows of a queue pair that is being destroyed, so that
// none is left for the next one with this number.
func (t *Table) ReleaseQP(qpn uint32) {
	t.mu.Lock()
	var closed []*entry
	for w := range t.bound[qpn] {
		t.unbind(w.entry, mem.FaultState)
		closed = append(closed, w.entry)
	}
	t.mu.Unlock()
	for _, e := range closed {
		t.unbound(e)
	}
}

// findWindow returns what a window's key stands for, or nil. The consumer's bits do not count: a bind that was posted, and then
// flushed or refused, has changed them for the program and not here. The program's next bind has its own.
func (t *Table) findWindow(key uint32) *entry {
	e := t.slots[key>>(t.shift&31)].Load()
	if e == nil || e.window == nil || (e.key^key)>>consumerBits != 0 {
		return nil
	}
	return e
}

// BindWindow implements mem.Memory (IBTA 10.6.7.2.6; numbers in the code are its
// compliance statements). It allocates the new binding.
func (t *Table) BindWindow(pd, qpn uint32, b verbs.Bind) mem.Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, target := t.findWindow(b.Window), t.find(b.Region)
	if old == nil || target == nil || target.window != nil {
		return mem.FaultKey
	}
	if old.pd != pd || target.pd != pd { // C10-72
		return mem.FaultPD
	}
	if old.closed.Load() == 0 { // o10-37.2.30: only a free window
		return mem.FaultState
	}
	if f := target.closed.Load(); f != 0 {
		return mem.Fault(f)
	}
	if b.Length == 0 || !target.contains(b.Addr, b.Length) { // o10-37.2.40, C10-75
		return mem.FaultRange
	}
	if b.Access&^(remoteRights|verbs.AccessZeroBased) != 0 ||
		target.access&verbs.AccessZeroBased != 0 || // as rxe has it
		target.access&verbs.AccessBindWindows == 0 || // C10-73
		b.Access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && target.access&verbs.AccessLocalWrite == 0 { // C10-74
		return mem.FaultRights
	}
	off := b.Addr - target.va
	e := &entry{
		key: old.key&^0xff | uint32(b.NewKey), pd: pd, qpn: qpn, access: b.Access,
		va: b.Addr, length: b.Length, pages: target.pages, first: off,
		arrived: target.arrived, region: target.region, window: old.window,
	}
	if e.pages == nil {
		e.host = target.host[off : off+b.Length : off+b.Length]
	}
	if b.Access&verbs.AccessZeroBased != 0 {
		e.va = 0
	}
	if b.Access&verbs.AccessRemoteAtomic != 0 && !e.aligned() {
		return mem.FaultAlign
	}
	target.region.windows++
	e.window.entry = e
	if t.bound[qpn] == nil {
		t.bound[qpn] = map[*Window]struct{}{}
	}
	t.bound[qpn][e.window] = struct{}{}
	t.slots[e.window.slot].Store(e)
	return mem.FaultNone
}

// InvalidateRemote implements mem.Memory: a peer's SEND with invalidate (IBTA 10.6).
func (t *Table) InvalidateRemote(pd, qpn, rkey uint32) mem.Fault {
	return t.invalidate(pd, qpn, rkey, true)
}

// InvalidateLocal implements mem.Memory: a work request of this side. It takes
// windows and regions alike.
func (t *Table) InvalidateLocal(pd, qpn, key uint32) mem.Fault {
	return t.invalidate(pd, qpn, key, false)
}

// invalidate closes a window or region and waits for the accesses of other
// threads that are in progress, each no longer than a copy. What is not valid cannot
// be invalidated again: FaultState.
func (t *Table) invalidate(pd, qpn, key uint32, remote bool) mem.Fault {
	t.mu.Lock()
	e := t.find(key)
	f := mem.FaultNone
	switch {
	case e == nil:
		f = mem.FaultKey
	case e.pd != pd:
		f = mem.FaultPD
	case e.closed.Load() != 0:
		f = mem.Fault(e.closed.Load())
	case e.window != nil && e.qpn != qpn:
		f = mem.FaultPD
	case e.window == nil && (!e.region.invalidatable || remote && e.access&remoteRights == 0):
		f = mem.FaultRights
	case e.window == nil && e.region.windows > 0:
		f = mem.FaultState
	}
	if f != mem.FaultNone {
		t.mu.Unlock()
		return f
	}
	if e.window != nil {
		t.unbind(e, mem.FaultState)
		t.mu.Unlock()
		t.unbound(e)
		return mem.FaultNone
	}
	e.close(mem.FaultState)
	t.mu.Unlock()
	e.drain()
	return mem.FaultNone
}
