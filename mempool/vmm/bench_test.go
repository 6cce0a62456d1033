// SPDX-License-Identifier: Apache-2.0

package vmm_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/mempool/vmm"
)

const benchSize, benchLocal = 256 << 20, 32 << 20

// percentiles reports times of single accesses.
func percentiles(b *testing.B, times []time.Duration) {
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "p50-us")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1000, "p99-us")
}

// BenchmarkPageIn is an access to a page of a map that is not local, and whose READ from the
// store takes no time: the cost of the fault, the handler process and the eviction of another
// page. "read" accesses clean pages, so that nothing is written to the store; "write" makes all
// pages dirty.
func BenchmarkPageIn(b *testing.B) {
	m := newMap(b, vmm.Config{Size: benchSize, Local: benchLocal}, "")
	for i := 0; i < benchSize; i += vmm.PageSize {
		m.Bytes()[i] = 1
	}
	for i := 0; i < benchSize; i += vmm.PageSize {
		if m.Bytes()[i] != 1 {
			b.Fatal("a page is wrong")
		}
	}
	for _, write := range []bool{false, true} {
		name := map[bool]string{false: "read", true: "write"}[write]
		b.Run(name, func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(1, 1))
			var times []time.Duration
			before, err := m.Stats()
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				at := rnd.IntN(benchSize)
				start := time.Now()
				if write {
					m.Bytes()[at] = 1
				} else if m.Bytes()[at] > 1 {
					b.Fatal("a page is wrong")
				}
				times = append(times, time.Since(start))
			}
			s, err := m.Stats()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(s.PageIns-before.PageIns)/float64(b.N), "page-ins/op")
			percentiles(b, times)
		})
	}
}

// BenchmarkScan is a sequential read of a map, with prefetch.
func BenchmarkScan(b *testing.B) {
	m := newMap(b, vmm.Config{Size: benchSize, Local: benchLocal}, "")
	for i := 0; i < benchSize; i += vmm.PageSize {
		m.Bytes()[i] = 1
	}
	buf := make([]byte, 64<<10)
	at := 0
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		copy(buf, m.Bytes()[at:])
		at = (at + len(buf)) % benchSize
	}
}

// BenchmarkRegion is ReadAt of a region: of local pages, of remote pages in random order, and of
// a sequence of remote pages in pieces of 64 KB.
func BenchmarkRegion(b *testing.B) {
	for _, c := range []struct {
		name   string
		local  int64
		bytes  int
		random bool
	}{
		{"local/4KB", benchSize, vmm.PageSize, true},
		{"remote/4KB", benchLocal, vmm.PageSize, true},
		{"remote/64KB", benchLocal, 64 << 10, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := newRegion(b, vmm.Config{Size: benchSize, Local: c.local}, &memStore{})
			buf := make([]byte, 1<<20)
			for pass := range 2 { // clean afterwards
				for at := int64(0); at < benchSize; at += int64(len(buf)) {
					var err error
					if pass == 0 {
						_, err = r.WriteAt(buf, at)
					} else {
						_, err = r.ReadAt(buf, at)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			rnd := rand.New(rand.NewPCG(1, 1))
			var times []time.Duration
			at := int64(0)
			b.SetBytes(int64(c.bytes))
			for b.Loop() {
				if c.random {
					at = rnd.Int64N(benchSize/int64(c.bytes)) * int64(c.bytes)
				}
				start := time.Now()
				if _, err := r.ReadAt(buf[:c.bytes], at); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(start))
				at = (at + int64(c.bytes)) % benchSize
			}
			percentiles(b, times)
		})
	}
}
