// SPDX-License-Identifier: Apache-2.0

package sim

import "math/bits"

// Histogram counts values from 0 in buckets no wider than 1/32 of their value.
type Histogram struct {
	counts []uint64
	total  uint64
	sum    float64
	max    int64
}

const histBits = 5

// bucket is the number of v's bucket: exact below 64, then 32 for each doubling.
func bucket(v int64) int {
	shift := max(bits.Len64(uint64(v))-histBits-1, 0)
	return shift<<histBits + int(v>>shift)
}

// upper is the largest value of a bucket.
func upper(b int) int64 {
	shift := max(b>>histBits-1, 0)
	return (int64(b-shift<<histBits)+1)<<shift - 1
}

// Add counts a value; one below 0 counts as 0.
func (h *Histogram) Add(v int64) {
	v = max(v, 0)
	b := bucket(v)
	for b >= len(h.counts) {
		h.counts = append(h.counts, 0)
	}
	h.counts[b]++
	h.total++
	h.sum += float64(v)
	h.max = max(h.max, v)
}

// Count is how many values there are.
func (h *Histogram) Count() uint64 { return h.total }

// Max is the largest value.
func (h *Histogram) Max() int64 { return h.max }

// Mean is their mean, 0 without values.
func (h *Histogram) Mean() float64 {
	if h.total == 0 {
		return 0
	}
	return h.sum / float64(h.total)
}

// Quantile is a value that a share q of the values does not exceed, up to 1/32
// too large; 0 without values.
func (h *Histogram) Quantile(q float64) int64 {
	want := uint64(q * float64(h.total))
	var seen uint64
	for b, c := range h.counts {
		seen += c
		if seen > want || seen == h.total && c > 0 {
			return min(upper(b), h.max)
		}
	}
	return 0
}

// Reset forgets all values.
func (h *Histogram) Reset() { *h = Histogram{counts: h.counts[:0]} }
