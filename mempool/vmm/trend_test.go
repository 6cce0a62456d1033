// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"math/rand/v2"
	"testing"
)

// A scan with a stride is prefetched along the stride, and the batches follow each other without
// a gap and without an overlap.
func TestTrendScan(t *testing.T) {
	for _, stride := range []int64{1, 3, -2} {
		tr := trend{max: maxWindow}
		page := int64(100000)
		var b batch
		for range 8 {
			page += stride
			b = tr.miss(page)
		}
		if b.pages < firstWindow || b.stride != stride || b.first != page+stride {
			t.Fatalf("stride %d, page %d: batch %+v", stride, page, b)
		}
		for range 6 {
			end := b.first + b.stride*int64(b.pages)
			next := tr.hit(b.first+b.stride*int64(b.pages/2), true)
			if next.first != end || next.stride != stride || next.pages < b.pages {
				t.Fatalf("stride %d: batch %+v after %+v, want one that starts at %d", stride, next, b, end)
			}
			b = next
		}
		if b.pages != maxWindow {
			t.Errorf("stride %d: the last batch has %d pages, want %d", stride, b.pages, maxWindow)
		}
	}
}

// Accesses in between do not hide the stride of the majority.
func TestTrendNoise(t *testing.T) {
	tr := trend{max: maxWindow}
	found := 0
	page := int64(0)
	for i := range 200 {
		if i%5 == 4 {
			tr.miss(1_000_000 + int64(i*i))
			tr.last = page // the noise is one stride away and one back: two strides of five
			continue
		}
		page += 2
		if b := tr.miss(page); b.pages > 0 && b.stride == 2 {
			found++
		}
	}
	if found < 100 {
		t.Errorf("%d of 160 accesses found the stride", found)
	}
}

// Random accesses have no stride, and prefetch next to nothing.
func TestTrendRandom(t *testing.T) {
	tr := trend{max: maxWindow}
	r := rand.New(rand.NewPCG(1, 2))
	pages := 0
	for range 1000 {
		pages += tr.miss(r.Int64N(1 << 30)).pages
	}
	if pages > 0 {
		t.Errorf("%d pages are prefetched for 1000 random accesses", pages)
	}
}
