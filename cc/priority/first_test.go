// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// first against sorting, with many equals and with few.
func TestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rests := rapid.Uint64Max(rapid.SampledFrom([]uint64{1, 3, 1000}).Draw(t, "kinds"))
		parts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) part {
			return part{id: uint32(rapid.IntRange(1, 50).Draw(t, "id")), rest: wide{0, rests.Draw(t, "rest")}}
		}), 1, 200).Draw(t, "parts")
		n := rapid.IntRange(1, len(parts)).Draw(t, "n")
		order := func(x, y part) int { return x.before(&y) }
		want := slices.Clone(parts)
		slices.SortFunc(want, order)
		first(parts, n)
		slices.SortFunc(parts[:n], order)
		slices.SortFunc(parts[n:], order)
		if !slices.Equal(parts, want) {
			t.Fatalf("the first %d are %v, want %v", n, parts[:n], want[:n])
		}
	})
}
