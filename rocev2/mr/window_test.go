// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"errors"
	"math"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func TestBindRefuses(t *testing.T) {
	const va = 0x10000
	table := newTable(t)
	pd, other := table.AllocPD(), table.AllocPD()
	buf := make([]byte, 64)
	reg := func(pd uint32, a verbs.Access) uint32 {
		return register(t, table, Spec{PD: pd, Host: buf, VA: va &^ zeroBasedMask(a), Access: a, Invalidatable: true}).LKey()
	}
	full := reg(pd, everything)
	foreign := reg(other, everything)
	noBind := reg(pd, everything&^verbs.AccessBindWindows)
	readOnly := reg(pd, verbs.AccessRemoteRead|verbs.AccessBindWindows)
	zeroBased := reg(pd, everything|verbs.AccessZeroBased)
	invalid := reg(pd, everything)
	wantFault(t, "invalidate", table.InvalidateLocal(pd, 1, invalid), mem.FaultNone)
	crooked := register(t, table, Spec{PD: pd, Host: buf[1:], VA: va, Access: everything &^ verbs.AccessRemoteAtomic}).LKey()

	w := newWindow(t, table, pd)
	foreignWindow := newWindow(t, table, other)
	key := w.RKey()
	bind := func(change func(*verbs.Bind)) verbs.Bind {
		b := verbs.Bind{Window: key, Region: full, Addr: va + 8, Length: 16, Access: verbs.AccessRemoteRead, NewKey: uint8(key) + 1}
		change(&b)
		return b
	}
	for _, c := range []struct {
		what   string
		change func(*verbs.Bind)
		want   mem.Fault
	}{
		{"no window", func(b *verbs.Bind) { b.Window ^= 1 << consumerBits }, mem.FaultKey},
		{"a region as window", func(b *verbs.Bind) { b.Window = full }, mem.FaultKey},
		{"no region", func(b *verbs.Bind) { b.Region ^= 1 }, mem.FaultKey},
		{"a window as region", func(b *verbs.Bind) { b.Region = key }, mem.FaultKey},
		{"foreign window", func(b *verbs.Bind) { b.Window = foreignWindow.RKey() }, mem.FaultPD},
		{"foreign region", func(b *verbs.Bind) { b.Region = foreign }, mem.FaultPD},
		{"invalid region", func(b *verbs.Bind) { b.Region = invalid }, mem.FaultState},
		{"no bytes", func(b *verbs.Bind) { b.Length = 0 }, mem.FaultRange},
		{"below", func(b *verbs.Bind) { b.Addr = va - 1 }, mem.FaultRange},
		{"beyond", func(b *verbs.Bind) { b.Length = 57 }, mem.FaultRange},
		{"end wraps", func(b *verbs.Bind) { b.Length = math.MaxUint64 - va }, mem.FaultRange},
		{"offset and length wrap", func(b *verbs.Bind) { b.Length = math.MaxUint64 - 3 }, mem.FaultRange},
		{"no bind right", func(b *verbs.Bind) { b.Region = noBind }, mem.FaultRights},
		{"zero-based region", func(b *verbs.Bind) { b.Region, b.Addr = zeroBased, 8 }, mem.FaultRights},
		{"write to read-only", func(b *verbs.Bind) { b.Region, b.Access = readOnly, verbs.AccessRemoteWrite }, mem.FaultRights},
		{"atomic to read-only", func(b *verbs.Bind) { b.Region, b.Access = readOnly, verbs.AccessRemoteAtomic }, mem.FaultRights},
		{"local write", func(b *verbs.Bind) { b.Access |= verbs.AccessLocalWrite }, mem.FaultRights},
		{"bind right", func(b *verbs.Bind) { b.Access |= verbs.AccessBindWindows }, mem.FaultRights},
		{"atomics on crooked memory", func(b *verbs.Bind) { b.Region, b.Access = crooked, verbs.AccessRemoteAtomic }, mem.FaultAlign},
		{"atomics, zero-based from a crooked start", func(b *verbs.Bind) { b.Addr++; b.Access = verbs.AccessRemoteAtomic | verbs.AccessZeroBased }, mem.FaultAlign},
	} {
		wantFault(t, c.what, table.BindWindow(pd, 7, bind(c.change)), c.want)
		if w.RKey() != key {
			t.Fatalf("%s: a refused bind changed the key", c.what)
		}
	}
	wantFault(t, "bind from a queue pair of another domain", table.BindWindow(other, 7, bind(func(*verbs.Bind) {})), mem.FaultPD)
	wantFault(t, "good bind", table.BindWindow(pd, 7, bind(func(*verbs.Bind) {})), mem.FaultNone)
	wantFault(t, "bind what is bound", table.BindWindow(pd, 7, bind(func(b *verbs.Bind) { b.Window = w.RKey() })), mem.FaultState)
}

// A bind that is flushed changes the key that the program has of the window. The next one is carried out.
func TestBindAfterFlush(t *testing.T) {
	table := newTable(t)
	pd, other := table.AllocPD(), table.AllocPD()
	region := register(t, table, Spec{PD: pd, Host: make([]byte, 64), VA: 0x10000, Access: everything}).LKey()
	w := newWindow(t, table, pd)
	flushed := w.RKey() ^ 0x55
	b := verbs.Bind{Window: flushed, Region: region, Addr: 0x10000, Length: 16, Access: verbs.AccessRemoteRead, NewKey: uint8(flushed) + 1}
	wantFault(t, "bind from a queue pair of another domain", table.BindWindow(other, 7, b), mem.FaultPD)
	wantFault(t, "bind", table.BindWindow(pd, 7, b), mem.FaultNone)
	if want := flushed&^0xff | uint32(b.NewKey); w.RKey() != want {
		t.Errorf("the window has the key %#x, want %#x", w.RKey(), want)
	}
}

func zeroBasedMask(a verbs.Access) uint64 {
	if a&verbs.AccessZeroBased != 0 {
		return math.MaxUint64
	}
	return 0
}

// TestWindowLife: what a window gives, to whom and for how long.
func TestWindowLife(t *testing.T) {
	const va = 0x10000
	table := newTable(t)
	pd, other := table.AllocPD(), table.AllocPD()
	buf := make([]byte, 64)
	r := register(t, table, Spec{PD: pd, Host: buf, VA: va, Access: verbs.AccessLocalWrite | verbs.AccessBindWindows, Invalidatable: true})
	w := newWindow(t, table, pd)
	unbound := w.RKey()
	b := verbs.Bind{Window: unbound, Region: r.LKey(), Addr: va + 8, Length: 16, Access: verbs.AccessRemoteWrite, NewKey: uint8(unbound) + 1}
	wantFault(t, "bind", table.BindWindow(pd, 7, b), mem.FaultNone)
	key := w.RKey()
	if key != unbound&^0xff|uint32(uint8(unbound)+1) {
		t.Fatalf("key %#x after %#x", key, unbound)
	}

	one := []byte{1}
	wantFault(t, "first byte", table.WriteRemote(pd, 7, key, va+8, one), mem.FaultNone)
	wantFault(t, "last byte", table.WriteRemote(pd, 7, key, va+23, one), mem.FaultNone)
	wantFault(t, "before", table.WriteRemote(pd, 7, key, va+7, one), mem.FaultRange)
	wantFault(t, "behind", table.WriteRemote(pd, 7, key, va+24, one), mem.FaultRange)
	wantFault(t, "read", table.ReadRemote(pd, 7, key, va+8, make([]byte, 1)), mem.FaultRights)
	wantFault(t, "other queue pair", table.WriteRemote(pd, 8, key, va+8, one), mem.FaultPD)
	wantFault(t, "other domain", table.WriteRemote(other, 7, key, va+8, one), mem.FaultPD)
	wantFault(t, "key before the bind", table.WriteRemote(pd, 7, unbound, va+8, one), mem.FaultKey)
	wantFault(t, "as lkey", table.WriteLocal(pd, key, va+8, one), mem.FaultKey)
	wantFault(t, "the region itself has no remote right", table.WriteRemote(pd, 7, r.LKey(), va+8, one), mem.FaultRights)
	if buf[8] != 1 || buf[23] != 1 || buf[7] != 0 || buf[24] != 0 {
		t.Errorf("memory is %v", buf)
	}

	if err := r.Deregister(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("deregister with a window: %v", err)
	}
	if err := r.Reregister(Spec{PD: pd, Host: buf}); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("reregister with a window: %v", err)
	}
	wantFault(t, "invalidate the region with a window", table.InvalidateLocal(pd, 7, r.LKey()), mem.FaultState)
	wantFault(t, "invalidate from another queue pair", table.InvalidateRemote(pd, 8, key), mem.FaultPD)
	wantFault(t, "invalidate by an old key", table.InvalidateRemote(pd, 7, unbound), mem.FaultKey)
	wantFault(t, "all that changed nothing", table.WriteRemote(pd, 7, key, va+8, one), mem.FaultNone)

	wantFault(t, "invalidate", table.InvalidateRemote(pd, 7, key), mem.FaultNone)
	wantFault(t, "after", table.WriteRemote(pd, 7, key, va+8, one), mem.FaultState)
	wantFault(t, "again", table.InvalidateRemote(pd, 7, key), mem.FaultState)

	b.Window, b.NewKey, b.Access = key, uint8(key)+1, verbs.AccessRemoteWrite|verbs.AccessZeroBased
	wantFault(t, "bind to another queue pair, zero-based", table.BindWindow(pd, 8, b), mem.FaultNone)
	key = w.RKey()
	wantFault(t, "last byte", table.WriteRemote(pd, 8, key, 15, []byte{9}), mem.FaultNone)
	wantFault(t, "behind", table.WriteRemote(pd, 8, key, 16, one), mem.FaultRange)
	wantFault(t, "by address", table.WriteRemote(pd, 8, key, va+8, one), mem.FaultRange)
	if buf[23] != 9 {
		t.Errorf("memory is %v", buf)
	}
	wantFault(t, "local invalidate", table.InvalidateLocal(pd, 8, key), mem.FaultNone)

	b.Window, b.NewKey = key, uint8(key)+1
	wantFault(t, "bind", table.BindWindow(pd, 9, b), mem.FaultNone)
	table.ReleaseQP(8)
	wantFault(t, "another queue pair is destroyed", table.WriteRemote(pd, 9, w.RKey(), 0, one), mem.FaultNone)
	table.ReleaseQP(9)
	wantFault(t, "the queue pair is destroyed", table.WriteRemote(pd, 9, w.RKey(), 0, one), mem.FaultState)

	b.Window = w.RKey()
	wantFault(t, "bind", table.BindWindow(pd, 9, b), mem.FaultNone)
	key = w.RKey()
	if err := w.Free(); err != nil {
		t.Fatal(err)
	}
	wantFault(t, "freed while bound", table.WriteRemote(pd, 9, key, 0, one), mem.FaultKey)
	if err := w.Free(); !errors.Is(err, verbs.ErrDestroyed) {
		t.Errorf("second Free: %v", err)
	}
	if err := r.Deregister(); err != nil {
		t.Errorf("deregister after all windows: %v", err)
	}
	if err := table.FreePD(pd); err != nil {
		t.Error(err)
	}
	if len(table.bound) != 0 {
		t.Errorf("windows left: %v", table.bound)
	}
}
