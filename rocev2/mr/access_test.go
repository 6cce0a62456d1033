// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var native = binary.NativeEndian

// allAccesses does each kind of access of n bytes and returns their faults by name.
func allAccesses(table *Table, pd, qpn, key uint32, addr uint64, n int) map[string]mem.Fault {
	data := bytes.Repeat([]byte{0xee}, n)
	out := map[string]mem.Fault{
		"ReadLocal":   table.ReadLocal(pd, key, addr, make([]byte, n)),
		"WriteLocal":  table.WriteLocal(pd, key, addr, data),
		"CheckLocal":  table.CheckLocal(pd, key, addr, uint32(n), verbs.AccessLocalWrite),
		"CheckRemote": table.CheckRemote(pd, qpn, key, addr, uint32(n), verbs.AccessRemoteWrite),
		"ReadRemote":  table.ReadRemote(pd, qpn, key, addr, make([]byte, n)),
		"WriteRemote": table.WriteRemote(pd, qpn, key, addr, data),
	}
	if n == 8 {
		_, out["CompareSwap"] = table.CompareSwap(pd, qpn, key, addr, 0, 1)
		_, out["FetchAdd"] = table.FetchAdd(pd, qpn, key, addr, 1)
	}
	return out
}

// TestRefusals: what every kind of access is refused for. Nothing changes then.
func TestRefusals(t *testing.T) {
	const va = 0x7000_0000_1000
	table := newTable(t)
	pd, other := table.AllocPD(), table.AllocPD()
	buf := make([]byte, 64)
	r := register(t, table, Spec{PD: pd, Host: buf[16:48], VA: va, Access: everything, Invalidatable: true})
	old := r.LKey()
	if err := r.Reregister(Spec{PD: pd, Host: buf[16:48], VA: va, Access: everything, Invalidatable: true}); err != nil {
		t.Fatal(err)
	}
	top := register(t, table, Spec{PD: pd, Host: make([]byte, 32), VA: math.MaxUint64 - 31, Access: everything})
	invalid := register(t, table, Spec{PD: pd, Host: buf[16:48], VA: va, Access: everything, Invalidatable: true})
	wantFault(t, "invalidate", table.InvalidateLocal(pd, 1, invalid.LKey()), mem.FaultNone)
	window := newWindow(t, table, pd)
	key := r.LKey()

	for _, c := range []struct {
		what string
		pd   uint32
		key  uint32
		addr uint64
		want mem.Fault
	}{
		{"key zero", pd, 0, va, mem.FaultKey},
		{"another slot", pd, key ^ 1<<31, va, mem.FaultKey},
		{"lowest key bit", pd, key ^ 1, va, mem.FaultKey},
		{"highest random bit", pd, key ^ 1<<(table.shift-1), va, mem.FaultKey},
		{"key before the re-registration", pd, old, va, mem.FaultKey},
		{"other domain", other, key, va, mem.FaultPD},
		{"no domain", 0, key, va, mem.FaultPD},
		{"invalidated", pd, invalid.LKey(), va, mem.FaultState},
		{"one byte before", pd, key, va - 1, mem.FaultRange},
		{"one byte beyond", pd, key, va + 32 - 7, mem.FaultRange},
		{"first byte behind", pd, key, va + 32, mem.FaultRange},
		{"far below", pd, key, 0, mem.FaultRange},
		{"last address", pd, key, math.MaxUint64, mem.FaultRange},
		{"sum wraps to the region", pd, key, math.MaxUint64 - 6, mem.FaultRange},
		{"sum wraps at the top region", pd, top.LKey(), math.MaxUint64 - 6, mem.FaultRange},
		{"address zero, top region", pd, top.LKey(), 0, mem.FaultRange},
	} {
		for name, got := range allAccesses(table, c.pd, 9, c.key, c.addr, 8) {
			wantFault(t, c.what+", "+name, got, c.want)
		}
	}
	for name, got := range allAccesses(table, pd, 9, window.RKey(), va, 8) {
		want := mem.FaultState
		if name == "ReadLocal" || name == "WriteLocal" || name == "CheckLocal" {
			want = mem.FaultKey // a window's key is no lkey
		}
		wantFault(t, "window that is not bound, "+name, got, want)
	}
	if !bytes.Equal(buf, make([]byte, 64)) {
		t.Errorf("a refused access changed memory: %x", buf)
	}
	// The last 8 bytes of all addresses are there.
	for name, got := range allAccesses(table, pd, 9, top.LKey(), math.MaxUint64-7, 8) {
		wantFault(t, "end of the top region, "+name, got, mem.FaultNone)
	}
}

// TestRights: which right each access needs.
func TestRights(t *testing.T) {
	needs := map[string]verbs.Access{
		"ReadLocal": 0, "WriteLocal": verbs.AccessLocalWrite, "CheckLocal": verbs.AccessLocalWrite,
		"CheckRemote": verbs.AccessRemoteWrite, "ReadRemote": verbs.AccessRemoteRead, "WriteRemote": verbs.AccessRemoteWrite,
		"CompareSwap": verbs.AccessRemoteAtomic, "FetchAdd": verbs.AccessRemoteAtomic,
	}
	table := newTable(t)
	pd := table.AllocPD()
	for rights := verbs.Access(0); rights <= allRights; rights++ {
		buf := make([]byte, 8)
		r, err := table.Register(Spec{PD: pd, Host: buf, Access: rights})
		if rights&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && rights&verbs.AccessLocalWrite == 0 {
			if err == nil {
				t.Errorf("rights %#b: registered without local write", rights)
			}
			continue
		}
		if err != nil {
			t.Fatalf("rights %#b: %v", rights, err)
		}
		for name, got := range allAccesses(table, pd, 9, r.LKey(), r.VA(), 8) {
			want := mem.FaultNone
			if rights&needs[name] != needs[name] {
				want = mem.FaultRights
			}
			if got != want {
				t.Errorf("rights %#b, %s: %v, want %v", rights, name, got, want)
			}
		}
		if (r.RKey() != 0) != (rights&remoteRights != 0) {
			t.Errorf("rights %#b: rkey %#x", rights, r.RKey())
		}
		if err := r.Deregister(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestZeroLength: no bytes need no key (C9-88).
func TestZeroLength(t *testing.T) {
	table := newTable(t)
	for name, got := range allAccesses(table, 77, 9, 0xdeadbeef, math.MaxUint64, 0) {
		wantFault(t, name, got, mem.FaultNone)
	}
}

func TestAccessesMoveTheRightBytes(t *testing.T) {
	table := newTable(t)
	pd := table.AllocPD()
	buf := []byte("0123456789abcdef")
	r := register(t, table, Spec{PD: pd, Host: buf, Access: everything})
	if want := addressOf(buf); r.VA() != want || r.Len() != 16 {
		t.Fatalf("region of %d bytes at %#x, want 16 at %#x", r.Len(), r.VA(), want)
	}
	got := make([]byte, 4)
	wantFault(t, "read", table.ReadRemote(pd, 1, r.RKey(), r.VA()+3, got), mem.FaultNone)
	if string(got) != "3456" {
		t.Errorf("remote read gave %q", got)
	}
	wantFault(t, "write", table.WriteRemote(pd, 1, r.RKey(), r.VA()+14, []byte("XY")), mem.FaultNone)
	wantFault(t, "write", table.WriteLocal(pd, r.LKey(), r.VA(), []byte("Z")), mem.FaultNone)
	wantFault(t, "read", table.ReadLocal(pd, r.LKey(), r.VA()+12, got), mem.FaultNone)
	if string(got) != "cdXY" || string(buf) != "Z123456789abcdXY" {
		t.Errorf("local read gave %q, memory is %q", got, buf)
	}
}

func TestZeroBased(t *testing.T) {
	table := newTable(t)
	pd := table.AllocPD()
	buf := make([]byte, 8)
	r := register(t, table, Spec{PD: pd, Host: buf, Access: everything | verbs.AccessZeroBased})
	wantFault(t, "write at 2", table.WriteRemote(pd, 1, r.RKey(), 2, []byte("hi")), mem.FaultNone)
	wantFault(t, "write at 7", table.WriteRemote(pd, 1, r.RKey(), 7, []byte("hi")), mem.FaultRange)
	wantFault(t, "write at the address", table.WriteRemote(pd, 1, r.RKey(), addressOf(buf), []byte("hi")), mem.FaultRange)
	if want := []byte("\x00\x00hi\x00\x00\x00\x00"); !bytes.Equal(buf, want) {
		t.Errorf("memory is %q, want %q", buf, want)
	}
}

func TestAtomics(t *testing.T) {
	table := newTable(t)
	pd := table.AllocPD()
	buf := make([]byte, 24)
	native.PutUint64(buf[8:], 40)
	r := register(t, table, Spec{PD: pd, Host: buf, Access: everything})
	key, at := r.RKey(), r.VA()+8

	old, f := table.FetchAdd(pd, 1, key, at, 2)
	if old != 40 || f != mem.FaultNone || native.Uint64(buf[8:]) != 42 {
		t.Errorf("FetchAdd: old %d, %v; memory %d", old, f, native.Uint64(buf[8:]))
	}
	old, f = table.CompareSwap(pd, 1, key, at, 41, 7)
	if old != 42 || f != mem.FaultNone || native.Uint64(buf[8:]) != 42 {
		t.Errorf("CompareSwap that must not swap: old %d, %v; memory %d", old, f, native.Uint64(buf[8:]))
	}
	old, f = table.CompareSwap(pd, 1, key, at, 42, 7)
	if old != 42 || f != mem.FaultNone || native.Uint64(buf[8:]) != 7 {
		t.Errorf("CompareSwap: old %d, %v; memory %d", old, f, native.Uint64(buf[8:]))
	}
	old, f = table.FetchAdd(pd, 1, key, at, math.MaxUint64)
	if old != 7 || f != mem.FaultNone || native.Uint64(buf[8:]) != 6 {
		t.Errorf("FetchAdd that wraps: old %d, %v; memory %d", old, f, native.Uint64(buf[8:]))
	}
	for off := uint64(1); off < 8; off++ {
		_, f = table.FetchAdd(pd, 1, key, at+off, 1)
		wantFault(t, "FetchAdd at an odd address", f, mem.FaultAlign)
		_, f = table.CompareSwap(pd, 1, key, at+off, 6, 1)
		wantFault(t, "CompareSwap at an odd address", f, mem.FaultAlign)
	}
	if native.Uint64(buf) != 0 || native.Uint64(buf[8:]) != 6 || native.Uint64(buf[16:]) != 0 {
		t.Errorf("memory is %x", buf)
	}
}
