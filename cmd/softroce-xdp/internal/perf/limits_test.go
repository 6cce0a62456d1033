// SPDX-License-Identifier: Apache-2.0

package perf

import "testing"

func TestLimitShares(t *testing.T) {
	for _, c := range []struct {
		limits map[string]uint64
		want   string
	}{
		{nil, ""},
		{map[string]uint64{"pacer": 1}, "pacer 100%"},
		{map[string]uint64{"pacer": 300, "congestion window": 699, "fence": 1}, "congestion window 70%, pacer 30%"},
		{map[string]uint64{"not limited": 3, "no work": 1}, "nothing 75%, no work 25%"},
		{map[string]uint64{"pacer": 5, "credits": 5}, "credits 50%, pacer 50%"},
	} {
		if got := limitShares(c.limits); got != c.want {
			t.Errorf("%v: %q, want %q", c.limits, got, c.want)
		}
	}
}
