// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// engines runs n goroutines that call f until stop is called.
func engines(n int, f func(engine int, round uint64)) (stop func()) {
	var done atomic.Bool
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for round := uint64(0); !done.Load(); round++ {
				f(i, round)
			}
		})
	}
	return func() { done.Store(true); wg.Wait() }
}

// TestUnmapAfterDeregister: memory is unmapped the moment that Deregister returns,
// while engines write to it. One access too late ends the test with a SIGSEGV.
func TestUnmapAfterDeregister(t *testing.T) {
	const size = 1 << 16
	table := newTable(t)
	pd := table.AllocPD()
	var key atomic.Uint64
	var hits atomic.Uint64
	stop := engines(3, func(engine int, round uint64) {
		k := uint32(key.Load())
		buf := make([]byte, 4096)
		at := 0x1000 + uint64(engine)*4096
		switch f := table.WriteRemote(pd, 1, k, at, buf); f {
		case mem.FaultNone:
			hits.Add(1)
		case mem.FaultKey:
		default:
			t.Errorf("fault %v", f)
		}
		table.ReadRemote(pd, 1, k, at, buf)
		table.FetchAdd(pd, 1, k, 0x1000+size-8, 1)
	})
	defer stop()
	begin := time.Now()
	for time.Since(begin) < 500*time.Millisecond || hits.Load() == 0 && time.Since(begin) < testkit.Patience {
		m, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		r := register(t, table, Spec{PD: pd, Host: m, VA: 0x1000, Access: everything})
		key.Store(uint64(r.RKey()))
		time.Sleep(100 * time.Microsecond)
		if err := r.Deregister(); err != nil {
			t.Fatal(err)
		}
		if err := unix.Munmap(m); err != nil {
			t.Fatal(err)
		}
	}
	if hits.Load() == 0 {
		t.Error("no engine ever wrote: nothing was tested")
	}
}

// TestNoAccessAfterItsEnd: whatever ends the way to memory, its owner may touch it at
// once. The race detector sees an access that was still in progress.
func TestNoAccessAfterItsEnd(t *testing.T) {
	for _, end := range []string{"deregister", "reregister", "invalidate region", "invalidate window", "free window", "release qp"} {
		t.Run(end, func(t *testing.T) {
			table := newTable(t)
			pd := table.AllocPD()
			buf := make([]byte, 3*512)
			spec := Spec{PD: pd, Host: buf, VA: 0x1000, Access: everything, Invalidatable: true}
			other := Spec{PD: pd, Host: make([]byte, len(buf)), VA: 0x1000, Access: everything}
			var key atomic.Uint32
			var hits atomic.Uint64
			stop := engines(3, func(engine int, _ uint64) {
				var data [512]byte
				if table.WriteRemote(pd, 1, key.Load(), 0x1000+uint64(engine)*512, data[:]) == mem.FaultNone {
					hits.Add(1)
				}
			})
			defer stop()
			for until := time.Now().Add(100 * time.Millisecond); time.Now().Before(until); {
				r := register(t, table, spec)
				w := newWindow(t, table, pd)
				if end == "invalidate window" || end == "free window" || end == "release qp" {
					b := verbs.Bind{Window: w.RKey(), Region: r.LKey(), Addr: 0x1000, Length: uint64(len(buf)), Access: verbs.AccessRemoteWrite}
					wantFault(t, "bind", table.BindWindow(pd, 1, b), mem.FaultNone)
					key.Store(w.RKey()) // never the region's: that way stays open
				} else {
					key.Store(r.RKey())
				}
				for from := hits.Load(); hits.Load() < from+3; {
					time.Sleep(10 * time.Microsecond)
				}
				var err error
				switch end {
				case "deregister":
					err = r.Deregister()
				case "reregister":
					err = r.Reregister(other)
				case "invalidate region":
					wantFault(t, end, table.InvalidateRemote(pd, 1, key.Load()), mem.FaultNone)
				case "invalidate window":
					wantFault(t, end, table.InvalidateRemote(pd, 1, key.Load()), mem.FaultNone)
				case "free window":
					err = w.Free()
				case "release qp":
					table.ReleaseQP(1)
				}
				if err != nil {
					t.Fatal(err)
				}
				for i := range buf {
					buf[i]++
				}
				if end != "free window" {
					err = w.Free()
				}
				if end != "deregister" && err == nil {
					err = r.Deregister()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestLateComer: an engine that found its entry and was granted access, but comes to
// enter only after the end. The other tests seldom meet this moment.
func TestLateComer(t *testing.T) {
	table := newTable(t)
	pd := table.AllocPD()
	for _, c := range []struct {
		what string
		end  func(r *Region) error
		want mem.Fault
	}{
		{"deregister", (*Region).Deregister, mem.FaultKey},
		{"invalidate", func(r *Region) error { table.InvalidateLocal(pd, 1, r.LKey()); return nil }, mem.FaultState},
	} {
		r := register(t, table, Spec{PD: pd, Host: make([]byte, 8), Access: everything, Invalidatable: true})
		e, f := table.remote(pd, 1, r.RKey(), r.VA(), 8, verbs.AccessRemoteRead)
		wantFault(t, "granted", f, mem.FaultNone)
		if err := c.end(r); err != nil {
			t.Fatal(err)
		}
		if f := e.enter(); f != c.want {
			t.Fatalf("late after %s: %v, want %v", c.what, f, c.want)
		}
		e.drain() // hangs if the late comer was counted
	}
}

// slow is a backend whose reads take until release is closed.
type slow struct {
	*banks
	entered, release chan struct{}
}

func (s slow) ReadAt(dst []byte, addr uint64) error {
	close(s.entered)
	<-s.release
	return s.banks.ReadAt(dst, addr)
}

// TestDeregisterWaits: also when another goroutine has invalidated the region before,
// and not for accesses to other regions.
func TestDeregisterWaits(t *testing.T) {
	for _, how := range []string{"region", "invalidated region", "window"} {
		t.Run(how, func(t *testing.T) {
			table := newTable(t)
			pd := table.AllocPD()
			b := slow{newBanks(4096), make(chan struct{}), make(chan struct{})}
			r := register(t, table, Spec{PD: pd, Access: everything, Invalidatable: true,
				Pages: &Pages{Backend: b, PageSize: 4096, Addrs: []uint64{0}, Length: 4096}})
			w := newWindow(t, table, pd)
			key := r.RKey()
			if how == "window" {
				bind := verbs.Bind{Window: w.RKey(), Region: key, Length: 4096, Access: verbs.AccessRemoteRead}
				wantFault(t, "bind", table.BindWindow(pd, 1, bind), mem.FaultNone)
				key = w.RKey()
			}
			var read mem.Fault
			var wg sync.WaitGroup
			wg.Go(func() { read = table.ReadRemote(pd, 1, key, 0, make([]byte, 8)) })
			<-b.entered
			if how == "invalidated region" {
				wg.Go(func() { table.InvalidateLocal(pd, 1, key) })
				for table.CheckRemote(pd, 1, key, 0, 8, 0) != mem.FaultState {
					time.Sleep(10 * time.Microsecond)
				}
			}
			ended := make(chan error)
			go func() {
				if how == "window" {
					if err := w.Free(); err != nil {
						ended <- err
						return
					}
				}
				ended <- r.Deregister()
			}()
			other := register(t, table, Spec{PD: pd, Host: make([]byte, 8), Access: everything})
			if err := other.Deregister(); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				t.Fatalf("it returned (%v) while a read was in progress", err)
			case <-time.After(30 * time.Millisecond):
			}
			close(b.release)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			wantFault(t, "the read", read, mem.FaultNone)
		})
	}
}

// TestAtomicsAreAtomic: through two regions over the same word, by several engines.
func TestAtomicsAreAtomic(t *testing.T) {
	table := newTable(t)
	pd := table.AllocPD()
	buf := make([]byte, 8)
	var keys [2]uint32
	for i := range keys {
		keys[i] = register(t, table, Spec{PD: pd, Host: buf, VA: 0x1000, Access: everything}).RKey()
	}
	const n = 100_000 // long enough for engines to meet
	var wg sync.WaitGroup
	for engine := range 4 {
		wg.Go(func() {
			for range n {
				if engine < 2 {
					table.FetchAdd(pd, 1, keys[engine], 0x1000, 1)
					continue
				}
				for old := uint64(0); ; {
					is, _ := table.CompareSwap(pd, 1, keys[engine-2], 0x1000, old, old+1)
					if is == old {
						break
					}
					old = is
				}
			}
		})
	}
	wg.Wait()
	if got := native.Uint64(buf); got != 4*n {
		t.Errorf("%d after %d additions", got, 4*n)
	}
}
