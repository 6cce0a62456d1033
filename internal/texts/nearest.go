// SPDX-License-Identifier: Apache-2.0

package texts

// This file says which of several names was probably meant.

import (
	"fmt"
	"slices"
	"strings"
)

// UnknownName is the error about a name that is none of those there are; it says
// which was probably meant.
func UnknownName(name, what string, all []string) error {
	if near := Nearest(name, all); near != "" {
		return fmt.Errorf("there is no %s %q: did you mean %s? There are %s", what, name, near, strings.Join(all, ", "))
	}
	return fmt.Errorf("there is no %s %q: choose %s", what, name, strings.Join(all, ", "))
}

// Nearest is the name that takes the fewest changes of a letter to write, "" if
// none is near.
func Nearest(name string, all []string) string {
	best, at := 1+max(2, len(name)/3), ""
	for _, n := range all {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < best {
			best, at = d, n
		}
	}
	return at
}

// distance counts letters to change, add or take away (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(before[j]+cost, before[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
