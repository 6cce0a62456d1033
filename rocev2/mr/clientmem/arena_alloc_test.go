// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"errors"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Buffers do not overlap, keep their content, lie at multiples of 128, and when all are back
// the whole arena is free.
func TestAlloc(t *testing.T) {
	a := create(t, 4*arenaPage)
	rapid.Check(t, func(t *rapid.T) {
		var buffers [][]byte
		fill := func(b []byte, v byte) {
			for i := range b {
				b[i] = v
			}
		}
		used := 0
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(buffers) > 0 && rapid.Bool().Draw(t, "free") {
				at := rapid.IntRange(0, len(buffers)-1).Draw(t, "which")
				b := buffers[at]
				for j := range b {
					if b[j] != b[0] {
						t.Fatalf("buffer of %d bytes: byte %d has changed", len(b), j)
					}
				}
				a.Free(b[:rapid.IntRange(1, len(b)).Draw(t, "shortened")])
				used -= int(rounded(len(b)))
				buffers = append(buffers[:at], buffers[at+1:]...)
				continue
			}
			n := rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(arenaPage, 3*arenaPage)).Draw(t, "n")
			b, err := a.Alloc(n)
			if err != nil {
				if !errors.Is(err, ErrFull) || len(buffers) == 0 {
					t.Fatal(err)
				}
				continue
			}
			offset, ok := a.Offset(b)
			if len(b) != n || cap(b) != n || !ok || offset%align != 0 {
				t.Fatalf("%d bytes, capacity %d, at %d, %v", len(b), cap(b), offset, ok)
			}
			fill(b, byte(i))
			buffers = append(buffers, b)
			used += int(rounded(n))
			if got := a.free.Available(); got != uint64(4*arenaPage-used) {
				t.Fatalf("%d bytes free, want %d", got, 4*arenaPage-used)
			}
		}
		for _, b := range buffers {
			a.Free(b)
		}
		whole, err := a.Alloc(4 * arenaPage)
		if err != nil {
			t.Fatal(err)
		}
		a.Free(whole)
	})
}

// Goroutines allocate and free at the same time.
func TestAllocConcurrent(t *testing.T) {
	a := create(t, 64*arenaPage)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 300 {
				b, err := a.Alloc(1 + n*7)
				if err != nil {
					continue
				}
				b[0], b[len(b)-1] = byte(i), byte(i)
				if b[0] != byte(i) || b[len(b)-1] != byte(i) {
					t.Error("shared with another buffer")
				}
				a.Free(b)
			}
		})
	}
	all.Wait()
	if a.free.Available() != uint64(64*arenaPage) || a.free.Pieces() != 1 {
		t.Errorf("%d bytes in %d pieces", a.free.Available(), a.free.Pieces())
	}
}

// Mistakes of the caller are told from a full arena.
func TestAllocRefuses(t *testing.T) {
	a := create(t, arenaPage)
	for _, n := range []int{0, -1, arenaPage + 1} {
		if _, err := a.Alloc(n); !errors.Is(err, verbs.ErrRange) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	b, err := a.Alloc(256)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := a.Offset(make([]byte, 8)); ok {
		t.Error("other memory has an offset")
	}
	for what, wrong := range map[string][]byte{"other memory": make([]byte, 128), "the middle": b[1:], "nothing": nil} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s freed", what)
				}
			}()
			a.Free(wrong)
		}()
	}
}
