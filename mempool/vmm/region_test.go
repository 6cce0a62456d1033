// SPDX-License-Identifier: Apache-2.0

package vmm_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/mempool/vmm"
)

func newRegion(t testing.TB, c vmm.Config, store vmm.Store) *vmm.Region {
	t.Helper()
	r, err := vmm.NewRegion(c, store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// fill writes n bytes that depend on the offset.
func fill(t testing.TB, w io.WriterAt, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	if _, err := w.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// Random reads and writes see what a plain slice would have, compared by hash, with an eighth of
// the region in local memory and a store that completes at once or later.
func TestRegionContent(t *testing.T) {
	const size = 4 << 20
	for _, delay := range []time.Duration{0, 50 * time.Microsecond} {
		store := &memStore{}
		store.SetDelay(delay)
		r := newRegion(t, vmm.Config{Size: size, Local: size / 8, Deadline: testkit.Patience}, store)
		want := make([]byte, size)
		rnd := rand.New(rand.NewPCG(1, 2))
		for range 1000 {
			off := rnd.IntN(size)
			n := rnd.IntN(min(size-off, 40000)) + 1
			if rnd.IntN(2) == 0 {
				b := make([]byte, n)
				for i := range b {
					b[i] = byte(rnd.Uint32())
				}
				copy(want[off:], b)
				if _, err := r.WriteAt(b, int64(off)); err != nil {
					t.Fatal(err)
				}
				continue
			}
			b := make([]byte, n)
			if _, err := r.ReadAt(b, int64(off)); err != nil {
				t.Fatal(err)
			}
			if sha256.Sum256(b) != sha256.Sum256(want[off:off+n]) {
				t.Fatalf("%d bytes at %d differ", n, off)
			}
		}
		got := make([]byte, size)
		if _, err := r.ReadAt(got, 0); err != nil {
			t.Fatal(err)
		}
		if sha256.Sum256(got) != sha256.Sum256(want) {
			t.Error("the whole region differs")
		}
		s := r.Stats()
		if s.PageOuts == 0 || s.PageIns == 0 || s.Resident > size/8/vmm.PageSize {
			t.Errorf("%+v", s)
		}
	}
}

// Goroutines that use the same local memory, each with its own part and all with a common part,
// see their own writes.
func TestRegionConcurrent(t *testing.T) {
	const part, parts = 64 << 10, 8
	store := &memStore{}
	store.SetDelay(20 * time.Microsecond)
	r := newRegion(t, vmm.Config{Size: part * (parts + 1), Local: 128 << 10, Deadline: testkit.Patience}, store)
	common := make([]byte, part)
	for i := range common {
		common[i] = byte(i * 7)
	}
	if _, err := r.WriteAt(common, part*parts); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range parts {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 3))
			own, base := make([]byte, part), int64(g*part)
			for range 400 {
				off, n := rnd.IntN(part-5000), rnd.IntN(5000)
				for i := off; i < off+n; i++ {
					own[i] = byte(rnd.Uint32())
				}
				if _, err := r.WriteAt(own[off:off+n], base+int64(off)); err != nil {
					t.Error(err)
				}
				off = rnd.IntN(part - 5000)
				b := make([]byte, 5000)
				if _, err := r.ReadAt(b, base+int64(off)); err != nil || !bytes.Equal(b, own[off:off+5000]) {
					t.Errorf("goroutine %d: its bytes at %d differ (%v)", g, off, err)
				}
				if _, err := r.ReadAt(b, part*parts+int64(off)); err != nil || !bytes.Equal(b, common[off:off+5000]) {
					t.Errorf("goroutine %d: the common bytes at %d differ (%v)", g, off, err)
				}
			}
		})
	}
	wg.Wait()
}

// Goroutines that miss the same page cause one READ.
func TestRegionSamePage(t *testing.T) {
	store := &memStore{}
	r := newRegion(t, vmm.Config{Size: 1 << 20, Local: 64 << 10, Deadline: testkit.Patience}, store)
	want := fill(t, r, 1<<20)
	before, _ := store.Counts()
	store.SetSilent(true)
	var wg sync.WaitGroup
	faults := r.Stats().Faults
	for range 8 {
		wg.Go(func() {
			b := make([]byte, 100)
			if _, err := r.ReadAt(b, 50); err != nil || !bytes.Equal(b, want[50:150]) {
				t.Errorf("the bytes differ (%v)", err)
			}
		})
	}
	for r.Stats().Faults < faults+8 {
		time.Sleep(time.Millisecond)
	}
	store.SetSilent(false)
	wg.Wait()
	if after, _ := store.Counts(); after != before+1 {
		t.Errorf("%d READs of one page", after-before)
	}
}

// A store that fails is an error with its cause, and the access succeeds later.
func TestRegionStoreErrors(t *testing.T) {
	store := &memStore{}
	r := newRegion(t, vmm.Config{Size: 1 << 20, Local: 64 << 10, Deadline: testkit.Patience}, store)
	want := fill(t, r, 1<<20)
	gone := errors.New("the key is no longer valid")
	store.SetErrors(func(int64) error { return gone }, nil)
	b := make([]byte, 8192)
	n, err := r.ReadAt(b, 100)
	var p *vmm.PageError
	if n != 0 || !errors.As(err, &p) || p.Offset != 0 || !errors.Is(err, gone) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	store.SetErrors(nil, nil)
	if _, err := r.ReadAt(b, 100); err != nil || !bytes.Equal(b, want[100:100+8192]) {
		t.Errorf("after the store works again: %v", err)
	}
}

// A store that never answers ends an access at its deadline, and the access succeeds at once after the answer. Virtual
// time does not pass while the region works.
func TestRegionDeadline(t *testing.T) {
	const deadline = 50 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		store := &memStore{}
		r := newRegion(t, vmm.Config{Size: 1 << 20, Local: 64 << 10, Deadline: deadline}, store)
		want := fill(t, r, 1<<20)
		store.SetSilent(true)
		b, begin := make([]byte, 10), time.Now()
		_, err := r.ReadAt(b, 0)
		if took := time.Since(begin); !errors.Is(err, vmm.ErrDeadline) || took < deadline || took > 2*deadline {
			t.Fatalf("ReadAt: %v after %v", err, took)
		}
		store.SetSilent(false)
		begin = time.Now()
		_, err = r.ReadAt(b, 0)
		if took := time.Since(begin); err != nil || !bytes.Equal(b, want[:10]) || took != 0 {
			t.Errorf("after the answer: %v after %v", err, took)
		}
	})
}

// Close ends accesses that wait, and later ones are refused.
func TestRegionClose(t *testing.T) {
	store := &memStore{}
	r := newRegion(t, vmm.Config{Size: 1 << 20, Local: 64 << 10, Deadline: time.Hour}, store)
	fill(t, r, 1<<20)
	store.SetSilent(true)
	result := make(chan error)
	before := r.Stats().Faults
	for i := range int64(4) {
		go func() {
			_, err := r.ReadAt(make([]byte, 10), i*vmm.PageSize)
			result <- err
		}()
	}
	for r.Stats().Faults < before+1 {
		time.Sleep(time.Millisecond)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := <-result; !errors.Is(err, vmm.ErrClosed) {
			t.Errorf("an access that waited: %v", err)
		}
	}
	store.SetSilent(false) // completions after Close have no effect
	if _, err := r.ReadAt(make([]byte, 1), 0); !errors.Is(err, vmm.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Pinned pages stay where they are while all others are evicted, and what is written to them is
// there afterwards.
func TestRegionPin(t *testing.T) {
	store := &memStore{}
	r := newRegion(t, vmm.Config{Size: 1 << 20, Local: 64 << 10, Deadline: testkit.Patience}, store)
	want := fill(t, r, 1<<20)
	b, release, err := r.Pin(5000, 10000, true)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want[5000:15000]) {
		t.Error("the pinned bytes differ")
	}
	got := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(i)
		want[5000+i] = byte(i)
	}
	for range 3 {
		if _, err := r.ReadAt(got, 0); err != nil {
			t.Fatal(err)
		}
	}
	release()
	for range 3 {
		if _, err := r.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("the region differs after the release (%v)", err)
		}
	}
	if _, _, err := r.Pin(0, 1<<20, false); !errors.Is(err, vmm.ErrNoRoom) {
		t.Errorf("Pin of more than the local memory: %v", err)
	}
}

// Accesses outside of the region, and impossible sizes, are refused.
func TestRegionLimits(t *testing.T) {
	store := &memStore{}
	r := newRegion(t, vmm.Config{Size: 1 << 20, Deadline: testkit.Patience}, store)
	for _, c := range [][2]int64{{-1, 1}, {1 << 20, 1}, {1<<20 - 1, 2}, {1 << 62, 1}} {
		if _, err := r.ReadAt(make([]byte, c[1]), c[0]); !errors.Is(err, vmm.ErrRange) {
			t.Errorf("%d bytes at %d: %v", c[1], c[0], err)
		}
	}
	fill(t, r, 1<<20)
	if reads, writes := store.Counts(); reads+writes > 0 {
		t.Errorf("%d READs and %d WRITEs, though all is local", reads, writes)
	}
	for _, c := range []vmm.Config{{}, {Size: -1}, {Size: 1 << 60}, {Size: 1 << 20, Local: 4096}, {Size: 1 << 30, Local: 1 << 20, Threshold: 1 << 20},
		{Size: 1, Deadline: -1}} {
		if r, err := vmm.NewRegion(c, store); err == nil {
			r.Close()
			t.Errorf("%+v is accepted", c)
		}
	}
}

// The usage of a period counts distinct pages of the store, and accesses that found no room.
func TestRegionUsage(t *testing.T) {
	store := &memStore{}
	r := newRegion(t, vmm.Config{Size: 1 << 20, Local: 64 << 10, Deadline: testkit.Patience}, store)
	fill(t, r, 64<<10/2)
	if u := r.EndPeriod(); u != (vmm.Usage{}) {
		t.Errorf("while all is local: %+v", u)
	}
	fill(t, r, 1<<20)
	if u := r.EndPeriod(); u.Touched < 240 || u.Touched > 256 {
		t.Errorf("after 256 pages were written: %+v", u)
	}
	b := make([]byte, 1<<20)
	for range 2 {
		if _, err := r.ReadAt(b, 0); err != nil { // no page is dirty afterwards
			t.Fatal(err)
		}
	}
	r.EndPeriod()
	for range 3 {
		for _, page := range []int64{3, 90, 40} {
			if _, err := r.ReadAt(b[:10], page*vmm.PageSize); err != nil {
				t.Fatal(err)
			}
		}
	}
	if u := r.EndPeriod(); u.Touched != 3 {
		t.Errorf("after accesses to three pages: %+v", u)
	}
}
