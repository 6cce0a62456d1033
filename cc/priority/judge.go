// SPDX-License-Identifier: Apache-2.0

package priority

// MostImportant is the highest importance of a node's data and applications; 0 is the lowest.
const MostImportant = 4

// Judge returns the level of a node (S4.5): from the lowest, one level up for each point of
// importance, and one for 10, 100 and 1000 users.
func Judge(users uint64, importance uint8) uint8 {
	level := Levels - min(importance, MostImportant)
	for _, many := range []uint64{10, 100, 1000} {
		if users >= many {
			level--
		}
	}
	return level
}
