// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"math/rand/v2"
	"testing"
)

func TestBitmap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 1000 {
		var b bitmap
		var model [256]bool
		for range r.IntN(40) {
			i := r.IntN(128)
			b.set(i)
			model[i] = true
		}
		n := r.IntN(140)
		down, low := b.shift(uint64(n)), b.below(n)
		first, top := 128, 0
		for i := range 128 {
			if b.has(i) != model[i] || down.has(i) != (i+n < 128 && model[i+n]) || low.has(i) != (i < n && model[i]) {
				t.Fatalf("%x: bit %d with n %d", b, i, n)
			}
			if model[i] {
				first, top = min(first, i), i+1
			}
		}
		if b.first() != first || b.len() != top {
			t.Fatalf("%x: first %d, len %d", b, b.first(), b.len())
		}
	}
}
