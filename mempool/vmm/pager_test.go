// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// fakeMemory keeps the pages of a pager in a map, and checks what the pager does with them.
type fakeMemory struct {
	t         *testing.T
	pages     map[int64]byte // the first byte stands for the page
	writable  map[int64]bool
	poisoned  map[int64]bool
	isMap     bool
	installed int
}

func (m *fakeMemory) install(n int64, data []byte, writable bool) error {
	if _, ok := m.pages[n]; ok {
		m.t.Fatalf("page %d is installed twice", n)
	}
	m.pages[n] = 0
	if data != nil {
		m.pages[n] = data[0]
	}
	m.writable[n] = writable
	m.installed++
	return nil
}

func (m *fakeMemory) allow(n int64, writable bool) error {
	m.writable[n] = m.writable[n] || writable
	return nil
}

func (m *fakeMemory) protect(n int64) error {
	m.writable[n] = false
	return nil
}

func (m *fakeMemory) snapshot(n int64, data []byte) error {
	if m.writable[n] {
		m.t.Fatalf("page %d is copied while the application may write it", n)
	}
	data[0] = m.pages[n]
	return nil
}

func (m *fakeMemory) drop(n int64) error {
	if m.writable[n] && m.isMap {
		m.t.Fatalf("page %d is dropped while the application may write it", n)
	}
	delete(m.pages, n)
	return nil
}

func (m *fakeMemory) poison(n int64) bool {
	if _, ok := m.pages[n]; ok {
		m.t.Fatalf("page %d is poisoned while it is resident", n)
	}
	m.poisoned[n] = m.isMap
	return m.isMap
}

func (m *fakeMemory) hidden() bool { return m.isMap }

// rig is a pager with a fake memory and a store that completes requests when the test says so.
type rig struct {
	*pager
	t      *testing.T
	m      *fakeMemory
	store  map[int64]byte
	now    time.Time
	readQ  []int64
	writeQ []int64
}

func newRig(t *testing.T, pages, local, threshold int, isMap bool) *rig {
	m := &fakeMemory{t: t, pages: map[int64]byte{}, writable: map[int64]bool{}, poisoned: map[int64]bool{}, isMap: isMap}
	return &rig{
		pager: newPager(m, pages, local, threshold, time.Second, make([]byte, maxBuffers*PageSize)),
		t:     t, m: m, store: map[int64]byte{}, now: time.Unix(1, 0),
	}
}

// get accesses a page.
func (r *rig) get(n int64, m mode) (*fault, error) {
	r.t.Helper()
	f, err := r.access(n, m, r.now)
	r.collect()
	if f == nil && err == nil {
		if _, ok := r.m.pages[n]; !ok {
			r.t.Fatalf("page %d is not there", n)
		}
		if m == forWrite {
			r.m.writable[n] = true // what the driver of a map does by allow
		}
	}
	return f, err
}

func (r *rig) collect() {
	if r.evictLater {
		r.evictLater = false
		r.evict(r.now)
	}
	r.readQ = append(r.readQ, r.reads...)
	r.writeQ = append(r.writeQ, r.writeBacks...)
	r.reads, r.writeBacks = nil, nil
}

// read completes the oldest READ.
func (r *rig) read(err error) {
	r.t.Helper()
	n := r.readQ[0]
	r.readQ = r.readQ[1:]
	content, ok := r.store[n]
	if !ok {
		r.t.Fatalf("page %d is read, and was never written", n)
	}
	r.data[n][0] = content
	r.readDone(n, err, r.now)
	r.collect()
}

// write completes the oldest WRITE.
func (r *rig) write(err error) {
	n := r.writeQ[0]
	r.writeQ = r.writeQ[1:]
	if err == nil {
		r.store[n] = r.data[n][0]
	}
	r.writeDone(n, err, r.now)
	r.collect()
}

func (r *rig) settle() {
	for len(r.readQ)+len(r.writeQ) > 0 {
		if len(r.readQ) > 0 {
			r.read(nil)
		}
		if len(r.writeQ) > 0 {
			r.write(nil)
		}
	}
}

// set writes a value to a page.
func (r *rig) set(n int64, v byte) {
	r.t.Helper()
	f, err := r.get(n, forWrite)
	r.settle()
	if err != nil || f != nil && f.err != nil {
		r.t.Fatalf("page %d: %v", n, err)
	}
	if f != nil && !r.m.writable[n] {
		r.t.Fatalf("page %d is not writable after a fault of a write", n)
	}
	r.m.pages[n] = v
}

func (r *rig) check() {
	r.t.Helper()
	if used := len(r.slots) - len(r.free); len(r.m.pages) > len(r.slots) || len(r.m.pages) > used {
		r.t.Fatalf("%d pages are resident, %d local pages are used of %d", len(r.m.pages), used, len(r.slots))
	}
	if len(r.buffers)+len(r.data) != maxBuffers {
		r.t.Fatalf("%d buffers are free, %d in use, of %d", len(r.buffers), len(r.data), maxBuffers)
	}
	prefetches := 0
	for i := range r.pages {
		if pg := &r.pages[i]; pg.prefetched && (pg.state == stateReading || pg.state == stateHeld) {
			prefetches++
		}
	}
	if prefetches != r.prefetches {
		r.t.Fatalf("%d pages are being prefetched, %d are counted", prefetches, r.prefetches)
	}
}

// Random accesses see the last value written, whatever the order of completions, with failing
// WRITEs in between, and never more local pages than allowed.
func TestPagerRandom(t *testing.T) {
	for _, isMap := range []bool{false, true} {
		for seed := range uint64(20) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			r := newRig(t, 100, 20, 3, isMap)
			want := make([]byte, 100)
			for range 5000 {
				n := int64(rnd.IntN(100))
				if rnd.IntN(3) == 0 {
					n = int64(rnd.IntN(10))
				}
				m := mode(rnd.IntN(2))
				f, err := r.get(n, m)
				for f != nil && !f.finished {
					switch {
					case len(r.readQ) > 0 && (len(r.writeQ) == 0 || rnd.IntN(2) == 0):
						r.read(nil)
					case len(r.writeQ) > 0 && rnd.IntN(4) == 0:
						r.write(errors.New("full"))
					case len(r.writeQ) > 0:
						r.write(nil)
					default:
						r.now = r.now.Add(retryWrite)
						r.expire(r.now)
						r.collect()
					}
				}
				if f != nil {
					err = f.err
				}
				if err != nil {
					t.Fatalf("page %d: %v", n, err)
				}
				if v, ok := r.m.pages[n]; !ok || v != want[n] {
					t.Fatalf("seed %d: page %d has %d, want %d (resident: %v)", seed, n, v, want[n], ok)
				}
				if m == forWrite {
					want[n]++
					r.m.pages[n] = want[n]
				}
				r.check()
			}
		}
	}
}

// Accesses to a page that is being read share one READ, and each later access waits for it.
func TestPagerDeduplicates(t *testing.T) {
	r := newRig(t, 64, 16, 1, true)
	for n := range int64(40) {
		r.set(n, byte(n))
	}
	a, _ := r.get(0, forRead)
	b, _ := r.get(0, forWrite)
	if a == nil || a != b || len(r.readQ) != 1 {
		t.Fatalf("faults %p and %p, %d READs", a, b, len(r.readQ))
	}
	r.read(nil)
	if !a.finished || a.err != nil || !r.m.writable[0] {
		t.Errorf("fault %+v, writable %v: one of the accesses is a write", a, r.m.writable[0])
	}
}

// A dirty page stays until its WRITE has completed; one that is changed during its WRITE stays
// after it.
func TestPagerDirtyPageStays(t *testing.T) {
	r := newRig(t, 64, 16, 1, true)
	for n := range int64(16) {
		if _, err := r.get(n, forWrite); err != nil {
			t.Fatal(err)
		}
		r.m.pages[n] = 1
	}
	f, _ := r.get(16, forRead)
	if len(r.writeQ) == 0 {
		t.Fatal("no page is written to the store")
	}
	n := r.writeQ[0]
	if _, ok := r.m.pages[n]; !ok {
		t.Fatal("the page is dropped before its WRITE has completed")
	}
	if _, err := r.get(n, forWrite); err != nil {
		t.Fatal(err)
	}
	r.m.pages[n] = 2
	r.settle()
	if v := r.m.pages[n]; v != 2 {
		t.Errorf("page %d has %d after the WRITE of an older content, want 2", n, v)
	}
	if f != nil && !f.finished {
		t.Error("the access that needed room still waits")
	}
}

// A page that is clean is dropped without a WRITE.
func TestPagerCleanPageIsNotWritten(t *testing.T) {
	r := newRig(t, 200, 16, 1, true)
	for n := range int64(100) {
		r.set(n, byte(n))
	}
	r.settle()
	for range 5 {
		for n := int64(99); n >= 0; n-- {
			r.get(n, forRead)
			r.settle()
		}
	}
	if out := r.stats.PageOuts; out > 100 {
		t.Errorf("%d WRITEs of 100 pages that were written once", out)
	}
}

// A READ without an answer fails the access at the deadline. A map has lost the page; a region
// finds it when the answer comes.
func TestPagerDeadline(t *testing.T) {
	for _, isMap := range []bool{true, false} {
		r := newRig(t, 64, 16, 1, isMap)
		for n := range int64(40) {
			r.set(n, byte(n+1))
		}
		f, _ := r.get(0, forRead)
		r.now = r.now.Add(time.Second - 1)
		if r.expire(r.now); f.finished {
			t.Fatal("the fault ended before its deadline")
		}
		r.now = r.now.Add(1)
		r.expire(r.now)
		if !f.finished || !errors.Is(f.err, ErrDeadline) || r.m.poisoned[0] != isMap {
			t.Fatalf("map %v: fault %+v, poisoned %v", isMap, f, r.m.poisoned[0])
		}
		r.read(nil)
		f, err := r.get(0, forRead)
		if isMap != errors.Is(err, ErrDeadline) || f != nil {
			t.Errorf("map %v: the next access: %v, %v", isMap, f, err)
		}
		r.settle()
		r.check()
	}
}

// With a store that takes no page, an access that needs room ends with the error of the store.
func TestPagerStoreTakesNothing(t *testing.T) {
	r := newRig(t, 64, 16, 1, true)
	full := errors.New("no space is leased")
	var f *fault
	for n := int64(0); f == nil; n++ {
		f, _ = r.get(n, forWrite)
		for len(r.writeQ) > 0 {
			r.write(full)
		}
	}
	for range 300 {
		r.now = r.now.Add(retryWrite)
		r.expire(r.now)
		r.collect()
		for len(r.writeQ) > 0 {
			r.write(full)
		}
	}
	if !f.finished || !errors.Is(f.err, ErrNoRoom) || !errors.Is(f.err, full) {
		t.Errorf("fault %+v, want ErrNoRoom and the error of the store", f)
	}
}

// A scan reads ahead, and each page once.
func TestPagerScan(t *testing.T) {
	for _, isMap := range []bool{false, true} {
		r := newRig(t, 2000, 200, 60, isMap)
		for n := range int64(2000) {
			r.set(n, byte(n))
		}
		r.stats = Stats{}
		for n := range int64(1500) {
			if _, ok := r.m.pages[n]; !ok || !isMap {
				if _, err := r.get(n, forRead); err != nil {
					t.Fatal(err)
				}
			}
			r.settle()
			r.check()
			if v := r.m.pages[n]; v != byte(n) {
				t.Fatalf("page %d has %d", n, v)
			}
		}
		s := r.stats
		if s.PageIns > 10 || s.PageIns+s.Prefetched > 1700 {
			t.Errorf("map %v: %d pages were read for an access and %d prefetched, of 1500", isMap, s.PageIns, s.Prefetched)
		}
	}
}

// The clock keeps a page that is accessed all the time.
func TestPagerClock(t *testing.T) {
	r := newRig(t, 1000, 16, 2, false)
	before := 0
	for n := range int64(1000) {
		r.set(0, 1)
		r.set(n, 1)
		if n == 20 {
			before = r.m.installed
		}
	}
	if again := r.m.installed - before - 979; again > 20 { // first in, first out evicts it 70 times
		t.Errorf("page 0 was evicted %d times", again)
	}
}

// The access to the first page of a batch starts the next batch, before the others of the batch are used up.
func TestPagerNextBatch(t *testing.T) {
	r := newRig(t, 2000, 400, 60, true)
	for n := range int64(2000) {
		r.set(n, byte(n))
	}
	for n := range int64(100) { // finds the stride
		if _, ok := r.m.pages[n]; !ok {
			r.get(n, forRead)
		}
		r.settle()
	}
	for range 3 {
		end := r.trend.next
		first := end - int64(r.trend.window)
		for n := first; n < end; n++ {
			if (r.pages[n].state == stateHeld) != (n == first) {
				t.Fatalf("batch of pages %d to %d: page %d is in state %d", first, end-1, n, r.pages[n].state)
			}
		}
		if _, err := r.get(first, forRead); err != nil {
			t.Fatal(err)
		}
		if len(r.readQ) == 0 || r.readQ[0] != end {
			t.Fatalf("after an access to page %d, pages %v are read; want those from %d on", first, r.readQ, end)
		}
		r.settle()
	}
}
