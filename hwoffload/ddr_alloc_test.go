// SPDX-License-Identifier: Apache-2.0

package hwoffload_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
)

const bankBytes = 4 << 30

var allFree = [hwoffload.Banks]uint64{bankBytes, bankBytes, bankBytes, bankBytes}

// ranges are the DDR addresses of an allocation.
func ranges(s *hwoffload.Space) (all [][2]uint64) {
	for addr, n := range s.Ranges(0, s.Size()) {
		all = append(all, [2]uint64{addr, addr + n})
	}
	return all
}

// Random allocations and frees, of sizes from a byte to more than a bank: no two overlap, each
// has its size, alignment and interleaving, and when all are free, all memory is free in one
// piece.
func TestAllocator(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		a := hwoffload.NewAllocator()
		var live []*hwoffload.Space
		full := 0
		for range 300 {
			if len(live) > 0 && r.IntN(5) < 2 {
				i := r.IntN(len(live))
				if err := live[i].Free(); err != nil {
					t.Fatal(err)
				}
				live = slices.Delete(live, i, i+1)
				continue
			}
			s, err := allocate(t, r, a)
			if errors.Is(err, hwoffload.ErrDDRFull) {
				full++
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			live = append(live, s)
		}
		checkOverlap(t, a, live)
		for _, s := range live {
			if err := s.Free(); err != nil {
				t.Fatal(err)
			}
		}
		if got := a.Available(); got != allFree {
			t.Fatalf("seed %d: %v bytes are free after all was freed", seed, got)
		}
		for bank := range hwoffload.Banks {
			s, err := a.AllocBank(bank, bankBytes, 1<<30)
			if err != nil || s.Address(0) != uint64(bank)*bankBytes {
				t.Fatalf("seed %d: bank %d is not free in one piece: %v", seed, bank, err)
			}
		}
		if seed == 0 && full == 0 {
			t.Error("the memory was never full: the test needs larger allocations")
		}
	}
}

// allocate makes a random allocation and checks where it lies.
func allocate(t *testing.T, r *rand.Rand, a *hwoffload.Allocator) (*hwoffload.Space, error) {
	t.Helper()
	bytes := 1 + r.Uint64N(uint64(1)<<(1+r.IntN(32)))
	align := uint64(1) << r.IntN(25)
	before := a.Available()
	if r.IntN(3) == 0 {
		bank := r.IntN(hwoffload.Banks)
		s, err := a.AllocBank(bank, bytes, align)
		if err == nil {
			if all := ranges(s); len(all) != 1 || all[0][1]-all[0][0] != bytes || all[0][0]%align != 0 || hwoffload.Bank(all[0][0]) != bank || hwoffload.Bank(all[0][1]-1) != bank {
				t.Fatalf("%d bytes in bank %d, alignment %d: %#x", bytes, bank, align, all)
			}
		}
		return s, err
	}
	s, err := a.Alloc(bytes, align)
	if err != nil {
		if a.Available() != before {
			t.Fatalf("a refused allocation has changed the free memory from %v to %v", before, a.Available())
		}
		return nil, err
	}
	all, sum := ranges(s), uint64(0)
	first := hwoffload.Bank(all[0][0])
	if before[first] != slices.Max(before[:]) {
		t.Fatalf("the first bank is %d, free were %v", first, before)
	}
	for i, x := range all {
		sum += x[1] - x[0]
		if bank := hwoffload.Bank(x[0]); bank != (first+i)%hwoffload.Banks || hwoffload.Bank(x[1]-1) != bank || i < 4 && x[0]%align != 0 {
			t.Fatalf("stripe %d of %d bytes, alignment %d, is at %#x; the first is in bank %d", i, bytes, align, x, first)
		}
	}
	if sum != bytes || s.Size() != bytes {
		t.Fatalf("%d bytes in ranges, %d allocated, want %d", sum, s.Size(), bytes)
	}
	return s, nil
}

// checkOverlap checks that no two allocations overlap, and that what is not allocated is free.
func checkOverlap(t *testing.T, a *hwoffload.Allocator, live []*hwoffload.Space) {
	t.Helper()
	var all [][2]uint64
	var used [hwoffload.Banks]uint64
	for _, s := range live {
		all = append(all, ranges(s)...)
	}
	slices.SortFunc(all, func(a, b [2]uint64) int { return int(int64(a[0] - b[0])) })
	for i, x := range all {
		if i > 0 && x[0] < all[i-1][1] {
			t.Fatalf("%#x and %#x overlap", all[i-1], x)
		}
		used[hwoffload.Bank(x[0])] += x[1] - x[0]
	}
	for bank, free := range a.Available() {
		rounding := uint64(len(live)) * hwoffload.AllocUnit
		if free+used[bank] > bankBytes || free+used[bank] < bankBytes-rounding {
			t.Errorf("bank %d: %d bytes free, %d used", bank, free, used[bank])
		}
	}
}

// The pages of an allocation are those of its bytes, in order.
func TestPages(t *testing.T) {
	a := hwoffload.NewAllocator()
	s, err := a.Alloc(5*hwoffload.Stripe+1, 16<<10)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := s.Pages(16 << 10)
	if err != nil || len(pages) != 5*4+1 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for i, p := range pages {
		if p != s.Address(uint64(i)*16<<10) || p%(16<<10) != 0 {
			t.Errorf("page %d is at %#x", i, p)
		}
	}
	for _, size := range []uint64{0, 2048, 12 << 10, 32 << 10, 128 << 10} {
		if _, err := s.Pages(size); err == nil || !strings.Contains(err.Error(), "use a power of two from 4096 to 16384") {
			t.Errorf("pages of %d: %v", size, err)
		}
	}
}

func TestAllocatorRefuses(t *testing.T) {
	a := hwoffload.NewAllocator()
	s, err := a.AllocBank(2, bankBytes-hwoffload.AllocUnit, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		alloc func() (*hwoffload.Space, error)
		want  string
	}{
		"nothing":      {func() (*hwoffload.Space, error) { return a.Alloc(0, 0) }, "0 bytes: an allocation has 1 to 17179869184"},
		"too much":     {func() (*hwoffload.Space, error) { return a.Alloc(16<<30+1, 0) }, "17179869185 bytes"},
		"alignment":    {func() (*hwoffload.Space, error) { return a.Alloc(1, 12288) }, "alignment 12288: use a power of two up to 1073741824"},
		"no such bank": {func() (*hwoffload.Space, error) { return a.AllocBank(4, 1, 0) }, "bank 4: a card has banks 0 to 3"},
		"bank full": {func() (*hwoffload.Space, error) { return a.AllocBank(2, 4097, 0) },
			"the card's memory has no room: 4097 bytes need 8192 contiguous ones in bank 2, aligned to 4096; it has 4096 free in 1 pieces"},
		"one bank full": {func() (*hwoffload.Space, error) { return a.Alloc(1<<20, 0) }, "contiguous ones in bank 2"},
	} {
		if _, err := c.alloc(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
	if err := s.Free(); err != nil {
		t.Error(err)
	}
	if err := s.Free(); err == nil || a.Available() != allFree {
		t.Errorf("freed twice: %v, free %v", err, a.Available())
	}
}
