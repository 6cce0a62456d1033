// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/softroce/softroce-xdp/mempool/lease"

// keep leaves nodes what they have and their last demand covers, as far as the plan leaves slabs free: a
// prediction that is too low takes no data away while nobody else needs the space.
func keep(plan []int, slabs int, slabBytes uint64, list []lease.Need) {
	spare := slabs
	for _, n := range plan {
		spare -= n
	}
	for i, x := range list {
		more := min(int(roundUp(min(x.Leased, x.Demand), slabBytes))-plan[i], spare)
		if more > 0 {
			plan[i] += more
			spare -= more
		}
	}
}
