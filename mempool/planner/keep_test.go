// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/mempool/lease"
)

// Of the slabs that a node has, it keeps those that its demand covers while slabs are free.
func TestKeep(t *testing.T) {
	const slab = 64 << 10
	need := func(demand, leased uint64) lease.Need {
		return lease.Need{Usage: lease.Usage{Demand: demand * slab, Leased: leased * slab}}
	}
	for _, c := range []struct {
		name       string
		slabs      int
		plan, want []int
		list       []lease.Need
	}{
		{"the plan is too low", 10, []int{3}, []int{6}, []lease.Need{need(6, 6)}},
		{"no more than it has", 10, []int{3}, []int{5}, []lease.Need{need(9, 5)}},
		{"no more than it wants", 10, []int{3}, []int{5}, []lease.Need{need(5, 9)}},
		{"the plan is more", 10, []int{7}, []int{7}, []lease.Need{need(5, 5)}},
		{"another one needs it", 10, []int{3, 6}, []int{4, 6}, []lease.Need{need(6, 6), need(6, 2)}},
		{"too little is free for all", 10, []int{0, 0, 0}, []int{4, 4, 2}, []lease.Need{need(9, 9), need(8, 8), need(2, 2)}},
		{"one more for the first", 5, []int{1, 1}, []int{3, 2}, []lease.Need{need(9, 9), need(8, 8)}},
		{"nothing is free", 9, []int{3, 6}, []int{3, 6}, []lease.Need{need(6, 6), need(6, 2)}},
	} {
		if keep(c.plan, c.slabs, slab, c.list); !slices.Equal(c.plan, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.plan, c.want)
		}
	}
}
