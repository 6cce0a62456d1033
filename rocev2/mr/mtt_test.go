// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// TestPages: regions over pages in several banks, in no order, at every page size,
// read and written across page borders.
func TestPages(t *testing.T) {
	const va, length = 0x4000_0000_0000, 3000
	for _, size := range []uint64{8, 64, 256, 4096} {
		for _, first := range []uint64{0, 1, size / 2, size - 1} {
			b := newBanks(3 * 4096)
			count := (first + length + size - 1) / size
			rng := rand.New(rand.NewPCG(size, first))
			var addrs []uint64
			for i := range count { // page i is in bank i%4; two in a row in bank 0 now and then
				addrs = append(addrs, bankAddr(i%4, i/4*size))
			}
			rng.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
			byteAt := func(off uint64) *byte { // by arithmetic of its own
				a := addrs[(first+off)/size]
				return &b.bank[a>>40][a&(1<<40-1)+(first+off)%size]
			}
			table := newTable(t)
			pd := table.AllocPD()
			r := register(t, table, Spec{PD: pd, VA: va, Access: everything &^ verbs.AccessRemoteAtomic,
				Pages: &Pages{Backend: b, PageSize: size, Addrs: addrs, First: first, Length: length}})

			want := make([]byte, length)
			for range 200 {
				off := rng.Uint64N(length)
				n := 1 + rng.Uint64N(length-off)
				data := make([]byte, n)
				for i := range data {
					data[i] = byte(rng.Uint32())
				}
				copy(want[off:], data)
				wantFault(t, "write", table.WriteRemote(pd, 1, r.RKey(), va+off, data), mem.FaultNone)
				got := make([]byte, n)
				wantFault(t, "read", table.ReadLocal(pd, r.LKey(), va+off, got), mem.FaultNone)
				if !bytes.Equal(got, data) {
					t.Fatalf("page size %d, first byte %d: read other bytes than were written", size, first)
				}
			}
			inRegion := 0
			for i, c := range want {
				if *byteAt(uint64(i)) != c {
					t.Fatalf("page size %d, first byte %d: byte %d is in the wrong place", size, first, i)
				}
				inRegion += int(c)
				*byteAt(uint64(i)) = 0
			}
			if inRegion == 0 {
				t.Fatal("nothing was written")
			}
			for i := range b.bank {
				if !bytes.Equal(b.bank[i], make([]byte, len(b.bank[i]))) {
					t.Errorf("page size %d, first byte %d: bytes outside the region changed in bank %d", size, first, i)
				}
			}
		}
	}
}

// TestPagesInARow: pages that follow each other take one call of the backend.
func TestPagesInARow(t *testing.T) {
	b := newBanks(4096)
	table := newTable(t)
	pd := table.AllocPD()
	r := register(t, table, Spec{PD: pd, Access: everything, Pages: &Pages{
		Backend: b, PageSize: 256, Length: 1024,
		Addrs: []uint64{bankAddr(1, 512), bankAddr(1, 768), bankAddr(2, 1024), bankAddr(2, 1280)},
	}})
	wantFault(t, "read", table.ReadLocal(pd, r.LKey(), 0, make([]byte, 1024)), mem.FaultNone)
	if b.calls != 2 {
		t.Errorf("%d calls for two runs of pages", b.calls)
	}
}

func TestAtomicsOnPages(t *testing.T) {
	b := newBanks(4096)
	arena, err := newArena(make([]byte, 4096))
	if err != nil {
		t.Fatal(err)
	}
	table := newTable(t)
	pd := table.AllocPD()
	for name, p := range map[string]*Pages{
		"banks": {Backend: b, PageSize: 256, Addrs: []uint64{bankAddr(2, 512), bankAddr(1, 0)}, First: 252, Length: 20},
		"arena": {Backend: arena, PageSize: 256, Addrs: []uint64{1024, 256}, First: 252, Length: 20},
	} {
		r := register(t, table, Spec{PD: pd, VA: 4, Access: everything, Pages: p})
		old, f := table.FetchAdd(pd, 1, r.RKey(), 8, 5) // offset 4: first byte of the second page
		if old != 0 || f != mem.FaultNone {
			t.Errorf("%s: FetchAdd %d, %v", name, old, f)
		}
		old, f = table.CompareSwap(pd, 1, r.RKey(), 8, 5, 9)
		if old != 5 || f != mem.FaultNone {
			t.Errorf("%s: CompareSwap %d, %v", name, old, f)
		}
		old, f = table.CompareSwap(pd, 1, r.RKey(), 8, 5, 10)
		if old != 9 || f != mem.FaultNone {
			t.Errorf("%s: CompareSwap that must not swap: %d, %v", name, old, f)
		}
	}
	if native.Uint64(b.bank[1]) != 9 || native.Uint64(arena[256:]) != 9 {
		t.Error("the atomics went elsewhere")
	}
}

func TestBackendFails(t *testing.T) {
	arena, _ := newArena(make([]byte, 256))
	b := newBanks(4096)
	table := newTable(t)
	pd := table.AllocPD()
	small := register(t, table, Spec{PD: pd, Access: everything, // more than the arena has
		Pages: &Pages{Backend: arena, PageSize: 256, Addrs: []uint64{256}, Length: 256}})
	broken := register(t, table, Spec{PD: pd, Access: everything,
		Pages: &Pages{Backend: b, PageSize: 256, Addrs: []uint64{256}, Length: 256}})
	b.broken = true
	for _, r := range []*Region{small, broken} {
		for name, got := range allAccesses(table, pd, 1, r.LKey(), 0, 8) {
			want := mem.FaultBackend
			if name == "CheckLocal" || name == "CheckRemote" {
				want = mem.FaultNone
			}
			wantFault(t, name, got, want)
		}
	}
	b.broken = false
	wantFault(t, "repaired", table.WriteRemote(pd, 1, broken.RKey(), 0, []byte{1}), mem.FaultNone)
	if err := broken.Deregister(); err != nil { // hangs if a failed access still counts
		t.Fatal(err)
	}
}

func TestArenaRefuses(t *testing.T) {
	if _, err := newArena(make([]byte, 64)[1:]); err == nil {
		t.Error("crooked memory accepted")
	}
}
