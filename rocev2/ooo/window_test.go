// SPDX-License-Identifier: Apache-2.0

package ooo

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2"
)

// psnWindow agrees with a set of PSNs.
func TestPSNWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := 64 << rapid.IntRange(0, 3).Draw(t, "size")
		base := rocev2.PSN(rapid.SampledFrom([]int{0, 1, 63, 64, 1000, 1<<24 - 1, 1<<24 - 70, 1 << 23}).Draw(t, "first"))
		w := newPSNWindow(size, base)
		arrived := map[rocev2.PSN]bool{}
		for range rapid.IntRange(1, 300).Draw(t, "packets") {
			far := rapid.SampledFrom([]int{1, 3, 64, size, size + 200}).Draw(t, "how far")
			p := base.Add(rapid.IntRange(-far, far).Draw(t, "packet"))
			d := p.Diff(base)
			want := psnNew
			switch {
			case d >= size:
				want = psnBeyond
			case d < -size:
				want = psnStale
			case d < 0 || arrived[p]:
				want = psnDuplicate
			}
			if got := w.classify(p); got != want {
				t.Fatalf("PSN %d, base %d: class %d, want %d", p, base, got, want)
			}
			if want == psnNew {
				w.add(p)
				arrived[p] = true
				for arrived[base] {
					delete(arrived, base)
					base = base.Add(1)
				}
			}
			if w.base != base || w.count != len(arrived) {
				t.Fatalf("base %d, %d bits; want %d, %d", w.base, w.count, base, len(arrived))
			}
			if want == psnBeyond || want == psnStale {
				continue
			}
			from, bits := w.around(p)
			if from != p&^63 {
				t.Fatalf("around %d: from %d", p, from)
			}
			for i := range 64 {
				q := from.Add(i)
				if there := bits>>i&1 != 0; there != (q.Before(base) || arrived[q]) {
					t.Fatalf("window %d, base %d, around %d: PSN %d is %v", size, base, p, q, there)
				}
			}
		}
	})
}

// idWindow takes each id once if ids are at most MaxMessages apart, in any order and modulo 2^32.
func TestIDWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w idWindow
		first := uint32(rapid.SampledFrom([]int{0, 1, 1<<32 - 10, 1 << 31}).Draw(t, "first"))
		w.next = first
		taken := map[uint32]bool{}
		oldest := first // not notified
		for range rapid.IntRange(1, 400).Draw(t, "notifications") {
			far := rapid.SampledFrom([]int{1, 5, MaxMessages}).Draw(t, "how far")
			id := oldest + uint32(rapid.IntRange(0, far-1).Draw(t, "id"))
			if w.has(id) != taken[id] {
				t.Fatalf("id %d: notified is %v", id, w.has(id))
			}
			w.add(id)
			taken[id] = true
			for taken[oldest] {
				oldest++
			}
			for _, old := range []uint32{id, oldest - 1, oldest - MaxMessages} {
				if int32(old-first) >= 0 && !w.has(old) && taken[old] {
					t.Fatalf("id %d is forgotten", old)
				}
			}
		}
	})
}
