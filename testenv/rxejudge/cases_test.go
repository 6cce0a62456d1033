// SPDX-License-Identifier: Apache-2.0

package rxejudge

import (
	"os"
	"testing"
	"time"
)

// FullEnv names the variable that has TestRxeAgainstRxe run the whole table; `make judge` sets it.
const FullEnv = "SOFTROCE_JUDGE_FULL"

// tooMany failures end the table early: each may take a minute.
const tooMany = 5

// TestRxeAgainstRxe shows that the judge judges right: what Linux rxe says to itself passes.
func TestRxeAgainstRxe(t *testing.T) {
	ctx, p := machines(t)
	cases := QuickCases()
	if os.Getenv(FullEnv) != "" {
		cases = Cases()
	}
	b := p.bench(t)
	start, failed := time.Now(), 0
	slowest, slowestTook := "", time.Duration(0)
	ran := 0
	for _, c := range cases {
		// -run TestRxeAgainstRxe/rc/write/.*/pmtu1024 picks.
		t.Run(c.Name(), func(t *testing.T) {
			if failed == tooMany {
				t.Fatalf("not run: %d cases have failed before", tooMany)
			}
			began := time.Now()
			ran++
			if err := b.Run(ctx, c); err != nil {
				failed++
				t.Error(err)
			}
			if took := time.Since(began); took > slowestTook {
				slowest, slowestTook = c.Name(), took
			}
		})
	}
	t.Logf("%d cases in %v, the slowest %s in %v", ran, time.Since(start).Round(time.Millisecond), slowest, slowestTook.Round(time.Millisecond))
}
