// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"slices"
	"testing"
)

// What cannot be divided goes to a node that wants more, and not to one that has all it wants.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		capacity uint64
		wants    []uint64
		plan     []int
		left     uint64
	}{
		{7, []uint64{2, 9, 9}, []int{2, 3, 2}, 0},
		{7, []uint64{9, 2, 9}, []int{3, 2, 2}, 0},
		{9, []uint64{2, 3}, []int{2, 3}, 4},
		{1, []uint64{0, 0, 5}, []int{0, 0, 1}, 0},
	} {
		plan := make([]int, len(c.wants))
		if left := Share(c.capacity, c.wants, plan); left != c.left || !slices.Equal(plan, c.plan) {
			t.Errorf("%d among %v: %v and %d are left, want %v and %d", c.capacity, c.wants, plan, left, c.plan, c.left)
		}
	}
}
