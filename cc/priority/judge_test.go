// SPDX-License-Identifier: Apache-2.0

package priority

import "testing"

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		users      uint64
		importance uint8
		want       uint8
	}{
		{0, 0, 8}, {9, 0, 8}, {10, 0, 7}, {99, 0, 7}, {100, 0, 6}, {999, 0, 6}, {1000, 0, 5}, {1e9, 0, 5},
		{0, 1, 7}, {0, 4, 4}, {10, 4, 3}, {1000, 4, 1}, {1e9, 4, 1}, {1e9, 200, 1},
	} {
		if got := Judge(c.users, c.importance); got != c.want {
			t.Errorf("%d users, importance %d: level %d, want %d", c.users, c.importance, got, c.want)
		}
	}
}
