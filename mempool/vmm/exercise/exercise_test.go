// SPDX-License-Identifier: Apache-2.0

package exercise

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

func memory(t *testing.T, pages int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, pages*pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b
}

func none(Step) error { return nil }

// The work on memory that is right ends with a hash, which depends on the seed and the accesses only.
func TestRun(t *testing.T) {
	c := Config{Seed: 3, Accesses: 500}
	var hashes []string
	for range 2 {
		steps := 0
		r, err := Run(t.Context(), memory(t, 100), c, func(Step) error { steps++; return nil })
		if err != nil || steps != 4 {
			t.Fatalf("%d steps, %v", steps, err)
		}
		if s := r.Step("random"); s.Bytes != 500*pageBytes || s.PageIns.Count != 0 {
			t.Errorf("%+v, %+v", s, s.PageIns)
		}
		hashes = append(hashes, r.Hash())
	}
	c.Accesses += 20
	r, err := Run(t.Context(), memory(t, 100), c, none)
	if err != nil || hashes[0] != hashes[1] || r.Hash() == hashes[0] || len(r.Hash()) != 64 {
		t.Errorf("%s, %s and with another access %s (%v)", hashes[0], hashes[1], r.Hash(), err)
	}
}

// Memory that has the pages of another seed is wrong at each of them, also where only the order of the pages differs.
func TestSeedsShareNoPage(t *testing.T) {
	const pages = 512
	seen := map[uint64]string{}
	for _, seed := range []uint64{0, 1, 2, 256, 257, 1 << 16} {
		c := content{seed: seed, versions: make([]uint8, pages)}
		for page := range pages {
			for _, c.versions[page] = range []uint8{0, 1, 2} {
				word, _ := c.word(page)
				here := fmt.Sprintf("page %d of seed %d in version %d", page, seed, c.versions[page])
				if other, ok := seen[word]; ok {
					t.Fatalf("%s is %s", here, other)
				}
				seen[word] = here
			}
		}
	}
}

// One bit that is wrong is found after each step.
func TestRunFindsWrongData(t *testing.T) {
	for _, step := range []string{"fill", "random", "scan"} {
		b := memory(t, 100)
		_, err := Run(t.Context(), b, Config{Seed: 3, Accesses: 5000}, func(s Step) error {
			if s.Name == step {
				b[37*pageBytes+4095] ^= 0x80
			}
			return nil
		})
		if !errors.Is(err, ErrData) {
			t.Errorf("a bit that is wrong after %s: %v", step, err)
		}
	}
}

func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, memory(t, 100), Config{}, func(Step) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := Run(t.Context(), make([]byte, 100), Config{}, none); err == nil {
		t.Error("a part of a page is memory")
	}
}

// Each page is picked, and a tenth of them most often.
func TestScatter(t *testing.T) {
	for _, pages := range []int{1, 2, 10, 997, 4096} {
		seen := map[int]bool{}
		for i := range pages {
			seen[scatter(i, pages)] = true
		}
		if len(seen) != pages {
			t.Errorf("%d of %d pages", len(seen), pages)
		}
	}
}

// A page is in memory from its first access until it is dropped.
func TestInMemory(t *testing.T) {
	b := memory(t, 1)
	for _, c := range []struct {
		after string
		do    func() error
		want  bool
	}{
		{"mmap", func() error { return nil }, false},
		{"an access", func() error { b[0] = 1; return nil }, true},
		{"madvise", func() error { return unix.Madvise(b, unix.MADV_DONTNEED) }, false},
	} {
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		if in, err := inMemory(b); in != c.want || err != nil {
			t.Errorf("after %s: %v, %v", c.after, in, err)
		}
	}
}
