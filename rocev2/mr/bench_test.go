// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"fmt"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// benchTable returns the interface that a queue pair has, and the keys of n regions.
func benchTable(b testing.TB, n int) (mem.Memory, uint32, []uint32) {
	table, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	pd := table.AllocPD()
	keys := make([]uint32, n)
	for i := range keys {
		keys[i] = register(b, table, Spec{PD: pd, Host: make([]byte, 4096), VA: 0x1000, Access: everything}).RKey()
	}
	return table, pd, keys
}

func BenchmarkCheckRemote(b *testing.B) {
	for _, n := range []int{1, 100, 10000} {
		b.Run(fmt.Sprintf("regions=%d", n), func(b *testing.B) {
			m, pd, keys := benchTable(b, n)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if m.CheckRemote(pd, 1, keys[i], 0x1000, 4096, verbs.AccessRemoteWrite) != 0 {
					b.Fatal("refused")
				}
				if i++; i == n {
					i = 0
				}
			}
		})
	}
}

func BenchmarkWriteRemote(b *testing.B) {
	for _, size := range []int{8, 64, 1024, 4096} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			m, pd, keys := benchTable(b, 1)
			src := make([]byte, size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if m.WriteRemote(pd, 1, keys[0], 0x1000, src) != 0 {
					b.Fatal("refused")
				}
			}
		})
	}
}

func BenchmarkFetchAdd(b *testing.B) {
	m, pd, keys := benchTable(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		m.FetchAdd(pd, 1, keys[0], 0x1008, 1)
	}
}

func BenchmarkTranslate(b *testing.B) {
	m, err := newMTT(Pages{Backend: newBanks(4096), PageSize: 4096, Addrs: make([]uint64, 1024), First: 9, Length: 1023 * 4096})
	if err != nil {
		b.Fatal(err)
	}
	var sum, off uint64
	for b.Loop() {
		sum += m.at(off)
		off = (off + 4096) & (1<<21 - 1)
	}
	_ = sum
}

// TestNoAllocations: no access allocates, on host memory or pages, granted or not.
func TestNoAllocations(t *testing.T) {
	table := newTable(t)
	pd := table.AllocPD()
	host := register(t, table, Spec{PD: pd, Host: make([]byte, 64), VA: 0x1000, Access: everything}).RKey()
	pages := register(t, table, Spec{PD: pd, VA: 0x1000, Access: everything, Pages: &Pages{
		Backend: newBanks(64), PageSize: 16, Length: 64, Addrs: []uint64{0, bankAddr(1, 0), bankAddr(2, 0), bankAddr(3, 16)}}}).RKey()
	var m mem.Memory = table
	buf := make([]byte, 40)
	for name, key := range map[string]uint32{"host": host, "pages": pages, "no key": 0} {
		got := testing.AllocsPerRun(100, func() {
			m.CheckRemote(pd, 1, key, 0x1000, 8, verbs.AccessRemoteWrite)
			m.CheckLocal(pd, key, 0x1000, 8, verbs.AccessLocalWrite)
			m.WriteRemote(pd, 1, key, 0x1008, buf)
			m.ReadRemote(pd, 1, key, 0x1008, buf)
			m.WriteLocal(pd, key, 0x1008, buf)
			m.ReadLocal(pd, key, 0x1008, buf)
			m.CompareSwap(pd, 1, key, 0x1008, 1, 2)
			m.FetchAdd(pd, 1, key, 0x1008, 1)
			m.InvalidateRemote(pd, 1, key)
		})
		if got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
