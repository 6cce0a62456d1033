// SPDX-License-Identifier: Apache-2.0

package priority

import "slices"

// Level is the most that each may have of capacity so that all have the same, where
// nobody has a priority: who wants less leaves the rest to the others (max-min). All if
// there is enough for everybody. A want of All takes whatever it is given. It sorts wants.
func Level(capacity uint64, wants []uint64) uint64 {
	var sum wide
	for _, w := range wants {
		sum.add(w)
	}
	if !sum.above(capacity) {
		return All
	}
	slices.Sort(wants)
	left := capacity
	for i, w := range wants {
		if even := left / uint64(len(wants)-i); w > even {
			return even
		}
		left -= w
	}
	return All
}
