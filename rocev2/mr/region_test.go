// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func TestRegisterRefuses(t *testing.T) {
	table := newTable(t)
	pd := table.AllocPD()
	buf := make([]byte, 64)
	b := newBanks(4096)
	page := func(change func(*Pages)) *Pages {
		p := &Pages{Backend: b, PageSize: 256, Addrs: []uint64{256, 1024}, First: 100, Length: 300}
		change(p)
		return p
	}
	for _, c := range []struct {
		what string
		spec Spec
		want error
		text string
	}{
		{"no domain", Spec{PD: 99, Host: buf}, verbs.ErrPD, "protection domain 99"},
		{"remote write alone", Spec{PD: pd, Host: buf, Access: verbs.AccessRemoteWrite}, verbs.ErrAccess, "need local write"},
		{"remote atomic alone", Spec{PD: pd, Host: buf, Access: verbs.AccessRemoteAtomic}, verbs.ErrAccess, "need local write"},
		{"unknown right", Spec{PD: pd, Host: buf, Access: 0x80}, verbs.ErrAccess, "0x80"},
		{"no memory", Spec{PD: pd}, verbs.ErrRange, "either"},
		{"two memories", Spec{PD: pd, Host: buf, Pages: page(func(*Pages) {})}, verbs.ErrRange, "either"},
		{"no bytes", Spec{PD: pd, Host: buf[:0]}, verbs.ErrRange, "0 bytes"},
		{"wraps", Spec{PD: pd, Host: buf, VA: math.MaxUint64 - 62}, verbs.ErrRange, "beyond the last address"},
		{"zero-based with an address", Spec{PD: pd, Host: buf, VA: 8, Access: verbs.AccessZeroBased}, verbs.ErrRange, "zero-based"},
		{"atomics on crooked memory", Spec{PD: pd, Host: buf[1:], VA: 8, Access: everything}, verbs.ErrRange, "modulo 8"},
		{"atomics on crooked zero-based memory", Spec{PD: pd, Host: buf[1:], Access: everything | verbs.AccessZeroBased}, verbs.ErrRange, "modulo 8"},
		{"atomics on crooked pages", Spec{PD: pd, Pages: page(func(*Pages) {}), VA: 8, Access: everything}, verbs.ErrRange, "modulo 8"},
		{"no backend", Spec{PD: pd, Pages: page(func(p *Pages) { p.Backend = nil })}, verbs.ErrRange, "backend"},
		{"page size 0", Spec{PD: pd, Pages: page(func(p *Pages) { p.PageSize = 0 })}, verbs.ErrRange, "power of 2"},
		{"page size 384", Spec{PD: pd, Pages: page(func(p *Pages) { p.PageSize = 384 })}, verbs.ErrRange, "power of 2"},
		{"first byte in the second page", Spec{PD: pd, Pages: page(func(p *Pages) { p.First = 256 })}, verbs.ErrRange, "offset 256"},
		{"too few pages", Spec{PD: pd, Pages: page(func(p *Pages) { p.Length = 413 })}, verbs.ErrRange, "2 pages"},
		{"too many pages", Spec{PD: pd, Pages: page(func(p *Pages) { p.Length = 156 })}, verbs.ErrRange, "2 pages"},
		{"no page", Spec{PD: pd, Pages: page(func(p *Pages) { p.Addrs = nil })}, verbs.ErrRange, "0 pages"},
		{"no bytes, no page", Spec{PD: pd, Pages: &Pages{Backend: b, PageSize: 256}}, verbs.ErrRange, "0 bytes"},
		{"length wraps", Spec{PD: pd, Pages: page(func(p *Pages) { p.Length = math.MaxUint64 })}, verbs.ErrRange, "2 pages"},
		{"crooked page", Spec{PD: pd, Pages: page(func(p *Pages) { p.Addrs[1]++ })}, verbs.ErrRange, "no multiple"},
		{"last page of all", Spec{PD: pd, Pages: page(func(p *Pages) { p.Addrs[1] = math.MaxUint64 - 255 })}, verbs.ErrRange, "last page"},
	} {
		r, err := table.Register(c.spec)
		if r != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v with %q", c.what, err, c.want, c.text)
		}
	}
	if err := table.FreePD(pd); err != nil {
		t.Errorf("after refusals only: %v", err)
	}
}

// TestKeysRotate: a key never comes back right away, neither by re-registration nor
// on a slot that was freed.
func TestKeysRotate(t *testing.T) {
	table := newTable(t)
	pd := table.AllocPD()
	spec := Spec{PD: pd, Host: make([]byte, 8), Access: everything}
	r := register(t, table, spec)
	for range 1000 {
		old := r.LKey()
		if err := r.Reregister(spec); err != nil {
			t.Fatal(err)
		}
		if r.LKey()>>8 == old>>8 || r.LKey()>>table.shift != old>>table.shift {
			t.Fatalf("key %#x after %#x", r.LKey(), old)
		}
		wantFault(t, "old key", table.ReadLocal(pd, old, r.VA(), make([]byte, 1)), mem.FaultKey)
		wantFault(t, "new key", table.ReadLocal(pd, r.LKey(), r.VA(), make([]byte, 1)), mem.FaultNone)
	}
	lastOn := map[uint32]uint32{r.LKey() >> table.shift: r.LKey()}
	if err := r.Deregister(); err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		r := register(t, table, spec)
		key := r.LKey()
		if last, ok := lastOn[key>>table.shift]; ok && last>>8 == key>>8 {
			t.Fatalf("key %#x again", key)
		}
		lastOn[key>>table.shift] = key
		if err := r.Deregister(); err != nil {
			t.Fatal(err)
		}
		wantFault(t, "key of a region that is gone", table.ReadLocal(pd, key, r.VA(), make([]byte, 1)), mem.FaultKey)
	}
	if len(lastOn) < 250 {
		t.Errorf("2000 registrations drew only %d of 256 slots", len(lastOn))
	}
}

// TestKeyBitsAreRandom: each of the 32 bits is set in about half of the keys.
func TestKeyBitsAreRandom(t *testing.T) {
	table, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	pd := table.AllocPD()
	spec := Spec{PD: pd, Host: make([]byte, 8)}
	const n = 4096
	var set [32]int
	for range n {
		r := register(t, table, spec)
		for bit := range set {
			set[bit] += int(r.LKey() >> bit & 1)
		}
		if err := r.Deregister(); err != nil {
			t.Fatal(err)
		}
	}
	for bit, c := range set { // ten standard deviations of 32
		if c < n/2-320 || c > n/2+320 {
			t.Errorf("bit %d is set in %d of %d keys", bit, c, n)
		}
	}
}

func TestAllKeysTaken(t *testing.T) {
	table := newTable(t)
	pd := table.AllocPD()
	spec := Spec{PD: pd, Host: make([]byte, 8)}
	var all []*Region
	for range 256 {
		all = append(all, register(t, table, spec))
	}
	if _, err := table.Register(spec); !errors.Is(err, verbs.ErrNoKey) {
		t.Errorf("region 257: %v", err)
	}
	if _, err := table.AllocWindow(pd); !errors.Is(err, verbs.ErrNoKey) {
		t.Errorf("window 257: %v", err)
	}
	for _, r := range all {
		if err := r.Deregister(); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.FreePD(pd); err != nil {
		t.Errorf("something leaked: %v", err)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []struct{ keys, slots int }{{0, 65536}, {1, 256}, {256, 256}, {257, 512}, {1 << 20, 1 << 20}} {
		table, err := New(Config{Keys: c.keys})
		if err != nil || len(table.slots) != c.slots {
			t.Errorf("%d keys: %v", c.keys, err)
		}
	}
	for _, n := range []int{-1, 1<<20 + 1} {
		if _, err := New(Config{Keys: n}); err == nil {
			t.Errorf("%d keys accepted", n)
		}
	}
}

func TestReregister(t *testing.T) {
	table := newTable(t)
	pd, other := table.AllocPD(), table.AllocPD()
	one, two := []byte("one....."), []byte("two.....")
	r := register(t, table, Spec{PD: pd, Host: one, VA: 0x1000, Access: verbs.AccessRemoteRead})
	key := r.RKey()

	if err := r.Reregister(Spec{PD: 99, Host: two}); !errors.Is(err, verbs.ErrPD) {
		t.Errorf("to no domain: %v", err)
	}
	if err := r.Reregister(Spec{PD: pd, Host: two, Access: verbs.AccessRemoteWrite}); !errors.Is(err, verbs.ErrAccess) {
		t.Errorf("to impossible rights: %v", err)
	}
	got := make([]byte, 3)
	wantFault(t, "after refusals", table.ReadRemote(pd, 1, key, 0x1000, got), mem.FaultNone)
	if string(got) != "one" {
		t.Errorf("read %q", got)
	}

	if err := r.Reregister(Spec{PD: other, Host: two, VA: 0x2000, Access: verbs.AccessRemoteRead}); err != nil {
		t.Fatal(err)
	}
	wantFault(t, "old domain", table.ReadRemote(pd, 1, r.RKey(), 0x2000, got), mem.FaultPD)
	wantFault(t, "new domain", table.ReadRemote(other, 1, r.RKey(), 0x2000, got), mem.FaultNone)
	if string(got) != "two" || r.PD() != other || r.VA() != 0x2000 || r.Access() != verbs.AccessRemoteRead {
		t.Errorf("read %q from region of domain %d at %#x", got, r.PD(), r.VA())
	}
	if err := table.FreePD(pd); err != nil {
		t.Errorf("the old domain is held: %v", err)
	}
	if err := table.FreePD(other); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("the new domain is not held: %v", err)
	}
	if err := r.Deregister(); err != nil {
		t.Fatal(err)
	}
	if err := r.Reregister(Spec{PD: other, Host: one}); !errors.Is(err, verbs.ErrDestroyed) {
		t.Errorf("after Deregister: %v", err)
	}
	if err := r.Deregister(); !errors.Is(err, verbs.ErrDestroyed) {
		t.Errorf("second Deregister: %v", err)
	}
}

func TestInvalidateRegion(t *testing.T) {
	table := newTable(t)
	pd, other := table.AllocPD(), table.AllocPD()
	spec := Spec{PD: pd, Host: make([]byte, 8), Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite, Invalidatable: true}
	r := register(t, table, spec)
	plain := register(t, table, Spec{PD: pd, Host: make([]byte, 8), Access: everything})
	local := register(t, table, Spec{PD: pd, Host: make([]byte, 8), Invalidatable: true})

	wantFault(t, "plain region, remote", table.InvalidateRemote(pd, 1, plain.RKey()), mem.FaultRights)
	wantFault(t, "plain region, local", table.InvalidateLocal(pd, 1, plain.LKey()), mem.FaultRights)
	wantFault(t, "region without remote rights, remote", table.InvalidateRemote(pd, 1, local.LKey()), mem.FaultRights)
	wantFault(t, "region without remote rights, local", table.InvalidateLocal(pd, 1, local.LKey()), mem.FaultNone)
	wantFault(t, "other domain", table.InvalidateRemote(other, 1, r.RKey()), mem.FaultPD)
	wantFault(t, "wrong key", table.InvalidateRemote(pd, 1, r.RKey()^1), mem.FaultKey)
	wantFault(t, "access before", table.WriteRemote(pd, 1, r.RKey(), r.VA(), []byte{1}), mem.FaultNone)
	wantFault(t, "right one", table.InvalidateRemote(pd, 1, r.RKey()), mem.FaultNone)
	wantFault(t, "access after", table.WriteRemote(pd, 1, r.RKey(), r.VA(), []byte{1}), mem.FaultState)
	wantFault(t, "local access after", table.WriteLocal(pd, r.LKey(), r.VA(), []byte{1}), mem.FaultState)
	wantFault(t, "again", table.InvalidateRemote(pd, 1, r.RKey()), mem.FaultState)
	if err := r.Reregister(spec); err != nil {
		t.Fatal(err)
	}
	wantFault(t, "registered again", table.WriteRemote(pd, 1, r.RKey(), r.VA(), []byte{1}), mem.FaultNone)
	wantFault(t, "invalidate again", table.InvalidateLocal(pd, 1, r.LKey()), mem.FaultNone)
	if err := r.Deregister(); err != nil {
		t.Errorf("deregister what is invalid: %v", err)
	}
}

func TestDomains(t *testing.T) {
	table := newTable(t)
	pd := table.AllocPD()
	if other := table.AllocPD(); pd == 0 || other == pd {
		t.Fatalf("domains %d and %d", pd, other)
	}
	if err := table.AcquirePD(pd); err != nil {
		t.Fatal(err)
	}
	if err := table.FreePD(pd); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("free while held: %v", err)
	}
	table.ReleasePD(pd)
	w := newWindow(t, table, pd)
	if err := table.FreePD(pd); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("free with a window: %v", err)
	}
	if err := w.Free(); err != nil {
		t.Fatal(err)
	}
	if err := table.FreePD(pd); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{"free": table.FreePD(pd), "hold": table.AcquirePD(pd)} {
		if !errors.Is(err, verbs.ErrPD) {
			t.Errorf("%s after free: %v", what, err)
		}
	}
	if _, err := table.AllocWindow(pd); !errors.Is(err, verbs.ErrPD) {
		t.Errorf("window after free: %v", err)
	}
	// Numbers that are taken are left out when they start over.
	table.domains.latest = math.MaxUint32
	if got := table.AllocPD(); got != pd {
		t.Errorf("domain %d after the last, want %d", got, pd)
	}
	defer func() {
		if recover() == nil {
			t.Error("ReleasePD without hold did not panic")
		}
	}()
	table.ReleasePD(pd)
}
