// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/softroce/softroce-xdp/mempool/lease"

// keep leaves nodes what they have and their last demand covers, as far as the plan leaves slabs free: a
// prediction that is too low takes no data away while nobody else needs the space. Too few free slabs are shared
// evenly.
func keep(plan []int, slabs int, slabBytes uint64, list []lease.Need) {
	spare, more := slabs, make([]uint64, len(list))
	for i, x := range list {
		spare -= plan[i]
		more[i] = uint64(max(int(roundUp(min(x.Leased, x.Demand), slabBytes))-plan[i], 0))
	}
	lease.Share(uint64(max(spare, 0)), more, plan)
}
