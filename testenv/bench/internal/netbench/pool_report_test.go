// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/mempool/vmm/exercise"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// measured is a poolRow whose page-ins and scan took these times.
func measured(name string, p50, p99 int64, scan time.Duration, hash string) poolRow {
	return poolRow{name: name, local: 32, read: exercise.Times{P50: 20_000, P99: 50_000}, stream: 8e9, Result: exercise.Result{Steps: []exercise.Step{
		{Name: "random", PageIns: &exercise.Times{Count: 9, P50: p50, P99: p99}},
		{Name: "scan", Took: scan, Bytes: 1e9},
		{Name: "hash", Hash: hash},
	}}}
}

// Each goal is met at its bound, and missed beyond it.
func TestPoolGoals(t *testing.T) {
	for _, c := range []struct {
		name      string
		pool      poolRow
		swap      poolRow
		missed    string // a text of the only goal that is missed
		anyMissed bool
	}{
		{"all met", measured("pool", 37_000, 90_000, 2*time.Second, "a"), measured("swap", 60_000, 200_000, time.Second, "a"), "", false},
		{"another result", measured("pool", 37_000, 90_000, 2*time.Second, "b"), measured("swap", 60_000, 200_000, time.Second, "a"), "the result is that", true},
		{"swap has another result", measured("pool", 37_000, 90_000, 2*time.Second, "a"), measured("swap", 60_000, 200_000, time.Second, "b"), "the result is that", true},
		{"slow page-ins", measured("pool", 37_001, 90_000, 2*time.Second, "a"), measured("swap", 60_000, 200_000, time.Second, "a"), "READ of 4 KB + 17 us", true},
		{"swap is faster", measured("pool", 37_000, 90_000, 2*time.Second, "a"), measured("swap", 37_000, 200_000, time.Second, "a"), "page-in p50 37.0 us, below swap's", true},
		{"swap's p99 is less", measured("pool", 37_000, 90_000, 2*time.Second, "a"), measured("swap", 60_000, 90_000, time.Second, "a"), "page-in p99", true},
		{"slow scan", measured("pool", 37_000, 90_000, 3*time.Second, "a"), measured("swap", 60_000, 200_000, time.Second, "a"), "scan", true},
	} {
		var out strings.Builder
		r := poolReport{
			megs: 64, all: measured("all local", 0, 0, time.Millisecond, "a"),
			maps: []poolRow{c.pool}, swaps: []poolRow{c.swap},
		}
		report := compare.NewReport(&out)
		r.print(report)
		ok := report.Err() == nil
		if ok == c.anyMissed || strings.Count(out.String(), "MISSED") != map[bool]int{true: 1}[c.anyMissed] {
			t.Errorf("%s: %v\n%s", c.name, ok, &out)
		}
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, "MISSED") && !strings.Contains(line, c.missed) {
				t.Errorf("%s: %s", c.name, line)
			}
		}
	}
}
