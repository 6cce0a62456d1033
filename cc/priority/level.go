// SPDX-License-Identifier: Apache-2.0

package priority

// Level is the most that each may have of capacity so that all have the same, where
// nobody has a priority: who wants less leaves the rest to the others (max-min). All if
// there is enough for everybody. A want of All takes whatever it is given.
func Level(capacity uint64, wants []uint64) uint64 {
	var sum wide
	for _, w := range wants {
		sum.add(w)
	}
	if !sum.above(capacity) {
		return All
	}
	// The even share, then that of what those below it leave, until nobody else is below.
	level := capacity / uint64(len(wants))
	for {
		left, n := capacity, uint64(len(wants))
		for _, w := range wants {
			if w <= level {
				left -= w
				n--
			}
		}
		if left/n == level {
			return level
		}
		level = left / n
	}
}
