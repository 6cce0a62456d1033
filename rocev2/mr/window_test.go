// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"errors"
	"math"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mem"
)

func TestBindRefuses(t *testing.T) {
	const va = 0x10000
	table := newTable(t)
	pd, other := table.AllocPD(), table.AllocPD()
	buf := make([]byte, 64)
	reg := func(pd uint32, a mem.Access) uint32 {
		return register(t, table, Spec{PD: pd, Host: buf, VA: va &^ zeroBasedMask(a), Access: a, Invalidatable: true}).LKey()
	}
	full := reg(pd, everything)
	foreign := reg(other, everything)
	noBind := reg(pd, everything&^mem.BindWindows)
	readOnly := reg(pd, mem.RemoteRead|mem.BindWindows)
	zeroBased := reg(pd, everything|mem.ZeroBased)
	invalid := reg(pd, everything)
	wantFault(t, "invalidate", table.InvalidateLocal(pd, 1, invalid), mem.FaultNone)
	crooked := register(t, table, Spec{PD: pd, Host: buf[1:], VA: va, Access: everything &^ mem.RemoteAtomic}).LKey()

	w := newWindow(t, table, pd)
	foreignWindow := newWindow(t, table, other)
	key := w.RKey()
	bind := func(change func(*mem.Bind)) mem.Bind {
		b := mem.Bind{Window: key, Region: full, Addr: va + 8, Length: 16, Access: mem.RemoteRead, NewKey: uint8(key) + 1}
		change(&b)
		return b
	}
	for _, c := range []struct {
		what   string
		change func(*mem.Bind)
		want   mem.Fault
	}{
		{"no window", func(b *mem.Bind) { b.Window ^= 1 }, mem.FaultKey},
		{"a region as window", func(b *mem.Bind) { b.Window = full }, mem.FaultKey},
		{"no region", func(b *mem.Bind) { b.Region ^= 1 }, mem.FaultKey},
		{"a window as region", func(b *mem.Bind) { b.Region = key }, mem.FaultKey},
		{"foreign window", func(b *mem.Bind) { b.Window = foreignWindow.RKey() }, mem.FaultPD},
		{"foreign region", func(b *mem.Bind) { b.Region = foreign }, mem.FaultPD},
		{"invalid region", func(b *mem.Bind) { b.Region = invalid }, mem.FaultState},
		{"no bytes", func(b *mem.Bind) { b.Length = 0 }, mem.FaultRange},
		{"below", func(b *mem.Bind) { b.Addr = va - 1 }, mem.FaultRange},
		{"beyond", func(b *mem.Bind) { b.Length = 57 }, mem.FaultRange},
		{"end wraps", func(b *mem.Bind) { b.Length = math.MaxUint64 - va }, mem.FaultRange},
		{"offset and length wrap", func(b *mem.Bind) { b.Length = math.MaxUint64 - 3 }, mem.FaultRange},
		{"no bind right", func(b *mem.Bind) { b.Region = noBind }, mem.FaultRights},
		{"zero-based region", func(b *mem.Bind) { b.Region, b.Addr = zeroBased, 8 }, mem.FaultRights},
		{"write to read-only", func(b *mem.Bind) { b.Region, b.Access = readOnly, mem.RemoteWrite }, mem.FaultRights},
		{"atomic to read-only", func(b *mem.Bind) { b.Region, b.Access = readOnly, mem.RemoteAtomic }, mem.FaultRights},
		{"local write", func(b *mem.Bind) { b.Access |= mem.LocalWrite }, mem.FaultRights},
		{"bind right", func(b *mem.Bind) { b.Access |= mem.BindWindows }, mem.FaultRights},
		{"atomics on crooked memory", func(b *mem.Bind) { b.Region, b.Access = crooked, mem.RemoteAtomic }, mem.FaultAlign},
		{"atomics, zero-based from a crooked start", func(b *mem.Bind) { b.Addr++; b.Access = mem.RemoteAtomic | mem.ZeroBased }, mem.FaultAlign},
	} {
		wantFault(t, c.what, table.BindWindow(pd, 7, bind(c.change)), c.want)
		if w.RKey() != key {
			t.Fatalf("%s: a refused bind changed the key", c.what)
		}
	}
	wantFault(t, "bind from a queue pair of another domain", table.BindWindow(other, 7, bind(func(*mem.Bind) {})), mem.FaultPD)
	wantFault(t, "good bind", table.BindWindow(pd, 7, bind(func(*mem.Bind) {})), mem.FaultNone)
	wantFault(t, "bind what is bound", table.BindWindow(pd, 7, bind(func(b *mem.Bind) { b.Window = w.RKey() })), mem.FaultState)
}

func zeroBasedMask(a mem.Access) uint64 {
	if a&mem.ZeroBased != 0 {
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
	r := register(t, table, Spec{PD: pd, Host: buf, VA: va, Access: mem.LocalWrite | mem.BindWindows, Invalidatable: true})
	w := newWindow(t, table, pd)
	unbound := w.RKey()
	b := mem.Bind{Window: unbound, Region: r.LKey(), Addr: va + 8, Length: 16, Access: mem.RemoteWrite, NewKey: uint8(unbound) + 1}
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

	if err := r.Deregister(); !errors.Is(err, ErrBusy) {
		t.Errorf("deregister with a window: %v", err)
	}
	if err := r.Reregister(Spec{PD: pd, Host: buf}); !errors.Is(err, ErrBusy) {
		t.Errorf("reregister with a window: %v", err)
	}
	wantFault(t, "invalidate the region with a window", table.InvalidateLocal(pd, 7, r.LKey()), mem.FaultState)
	wantFault(t, "invalidate from another queue pair", table.InvalidateRemote(pd, 8, key), mem.FaultPD)
	wantFault(t, "invalidate by an old key", table.InvalidateRemote(pd, 7, unbound), mem.FaultKey)
	wantFault(t, "all that changed nothing", table.WriteRemote(pd, 7, key, va+8, one), mem.FaultNone)

	wantFault(t, "invalidate", table.InvalidateRemote(pd, 7, key), mem.FaultNone)
	wantFault(t, "after", table.WriteRemote(pd, 7, key, va+8, one), mem.FaultState)
	wantFault(t, "again", table.InvalidateRemote(pd, 7, key), mem.FaultState)

	b.Window, b.NewKey, b.Access = key, uint8(key)+1, mem.RemoteWrite|mem.ZeroBased
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
	if err := w.Free(); !errors.Is(err, ErrGone) {
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
