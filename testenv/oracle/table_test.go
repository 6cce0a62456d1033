// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// TestCasesCoverEverything shows that no dimension fell out of either table.
func TestCasesCoverEverything(t *testing.T) {
	for name, table := range map[string][]Case{"full": Cases(), "quick": QuickCases()} {
		seen, has := map[string]bool{}, map[any]bool{}
		for _, c := range table {
			if seen[c.Name()] {
				t.Errorf("%s: %s is there twice", name, c.Name())
			}
			seen[c.Name()] = true
			for _, what := range []any{
				c.Service, [2]any{c.Service, c.Op}, [2]any{c.Service, c.PMTU}, [2]any{"op, direction", [2]any{c.Op, c.FromB}},
				[2]any{"op, family", [2]any{c.Op, c.V6}}, [2]any{"srq", c.SRQ}, [2]any{"netem", c.Netem}, [2]any{"size", c.Size},
			} {
				has[what] = true
			}
			if x := (&exchange{Case: c}); c.Count > maxCount || c.Count*x.stride() > region {
				t.Errorf("%s: %s does not fit", name, c.Name())
			}
		}
		var want []any
		for _, ops := range []struct {
			s   verbs.QPType
			ops []verbs.Op
		}{{verbs.RC, rcOps}, {verbs.UC, ucOps}, {verbs.UD, udOps}} {
			for _, op := range ops.ops {
				want = append(want, [2]any{ops.s, op})
				for _, yes := range []bool{false, true} {
					want = append(want, [2]any{"op, direction", [2]any{op, yes}}, [2]any{"op, family", [2]any{op, yes}})
				}
			}
			for _, pmtu := range PMTUs {
				want = append(want, [2]any{ops.s, pmtu})
			}
		}
		want = append(want, [2]any{"srq", true}, [2]any{"size", 1}, [2]any{"netem", Netems[0]}, [2]any{"netem", Netems[len(Netems)-1]})
		if name == "full" {
			want = append(want, [2]any{"size", 0}, [2]any{"size", MaxSize})
			for _, n := range Netems {
				want = append(want, [2]any{"netem", n})
			}
		}
		for _, w := range want {
			if !has[w] {
				t.Errorf("%s: nothing has %v", name, w)
			}
		}
		t.Logf("%s: %d cases", name, len(table))
	}
	full := Cases()
	for _, c := range QuickCases() {
		if !slices.Contains(full, c) {
			t.Errorf("%s is not in the full table", c.Name())
		}
	}
}
