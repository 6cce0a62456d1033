// SPDX-License-Identifier: Apache-2.0

package orderbench

import "testing"

func TestTry(t *testing.T) {
	for _, c := range []cell{{0, 0}, {0, 0.1}, {0, .5}, {0.01, 0}, {0.01, .5}, {.05,0}, {0.05, .5}} {
		for name, m := range map[string]maker{"ooo": newOutOfOrder, "sack": newReliable(true), "gbn": newReliable(false)} {
			f, err := measure(1, c, m, 300)
			t.Logf("%v %s %+v %v", c, name, f, err)
		}
	}
}
