// SPDX-License-Identifier: Apache-2.0

package priority

// Level is the max-min share of capacity: the most that one destination may have, where none
// has a priority. What a smaller demand (want) leaves is shared by the others. It is All if all
// demands fit. A demand of All takes whatever it is given.
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
