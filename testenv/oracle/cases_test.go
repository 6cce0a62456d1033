// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"os"
	"testing"
	"time"
)

// FullEnv names the variable that has TestRxeAgainstRxe run the whole table; `make judge` sets it.
const FullEnv = "SOFTROCE_JUDGE_FULL"

// tooMany failures end the table early: each may take minutes.
const tooMany = 3

// TestRxeAgainstRxe shows that the judge judges right: what Linux rxe says to itself passes.
func TestRxeAgainstRxe(t *testing.T) {
	ctx, p := machines(t)
	cases := QuickCases()
	if os.Getenv(FullEnv) != "" {
		cases = Cases()
	}
	b := p.bench(t)
	runTable(ctx, t, b, cases)
}

// runTable runs cases as subtests: -run TestRxeAgainstRxe/rc/write/.*/pmtu1024 picks.
func runTable(ctx context.Context, t *testing.T, b *Bench, cases []Case) {
	start, ran, failed := time.Now(), 0, 0
	slowest, slowestTook := "", time.Duration(0)
	for _, c := range cases {
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
	// Those of which the host dropped packets are not among them.
	if most := 1 + ran/200; b.Lost > most {
		t.Errorf("%d messages of UC and UD were lost, want %d at most", b.Lost, most)
	}
	t.Logf("%d messages of UC and UD were lost and sent again, and %d of which the host dropped packets", b.Lost, b.Spoilt)
	t.Logf("%d cases in %v, the slowest %s in %v", ran, time.Since(start).Round(time.Millisecond), slowest, slowestTook.Round(time.Millisecond))
}
