// SPDX-License-Identifier: Apache-2.0

package orderbench

import (
	"strings"
	"testing"
)

// The goals of issue 14 that out-of-order mode reaches stay reached. Time is virtual: load of the
// machine changes nothing. docs/out-of-order.md names those that it misses.
func TestGoals(t *testing.T) {
	rows, err := table(1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	misses := goals(rows)
	if err := report(&out, rows, misses, 1000); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", out.String())
	for _, m := range misses {
		if strings.Contains(m, "p99") { // three trips instead of one: see docs/out-of-order.md
			continue
		}
		if strings.Contains(m, "RC with SACK has") && strings.Contains(m, "reordering 0 %") {
			continue // the larger headers
		}
		t.Error(m)
	}
	for _, r := range rows {
		if r.ooo.goodput < 0.96*r.sack.goodput {
			t.Errorf("%+v: goodput %.0f, RC with SACK has %.0f", r.cell, r.ooo.goodput, r.sack.goodput)
		}
		if r.reorder > 0 && r.loss == 0 && r.ooo.ratio > 1.01 {
			t.Errorf("%+v: reordering looks like loss: %.3f packets sent per packet delivered", r.cell, r.ooo.ratio)
		}
	}
}
