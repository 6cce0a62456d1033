// SPDX-License-Identifier: Apache-2.0

package netbench_test

import (
	"context"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/netbench"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// All pairs of values that perf takes occur, in few cases.
func TestPairwise(t *testing.T) {
	cases := netbench.Pairwise()
	if n := len(cases); n < 50 || n > 150 {
		t.Errorf("%d cases", n)
	}
	seen := map[[2]any]bool{}
	for _, c := range cases {
		seen[[2]any{c.Op, c.QPs}] = true
		seen[[2]any{c.MTU, c.Service}] = true
		seen[[2]any{c.PMTU, c.Depth}] = true
	}
	for _, want := range [][2]any{{"write", 1000}, {"read", 1}, {"send", 400}, {1500, "ud"}, {9000, "uc"}, {256, 128}, {4096, 1}} {
		if !seen[want] {
			t.Errorf("no case has %v", want)
		}
	}
}

// What may be wrong with a result is a miss.
func TestMiss(t *testing.T) {
	for _, c := range []struct {
		r    netbench.Result
		miss bool
	}{
		{netbench.Result{Messages: 10, Packets: 10_000}, false},
		{netbench.Result{Messages: 10, Packets: 10_400, Again: 400}, false},
		{netbench.Result{Messages: 10, Packets: 10_600, Again: 600}, true},
		{netbench.Result{Messages: 10, Packets: 100, Again: 20}, false},
		{netbench.Result{Packets: 10}, true},
		{netbench.Result{Messages: 10, Err: context.DeadlineExceeded}, true},
	} {
		if got := c.r.Miss(); (got != nil) != c.miss {
			t.Errorf("%+v: %v", c.r, got)
		}
	}
}

// The short form of `make sweep`: what went wrong once, and some of each kind.
func TestSweep(t *testing.T) {
	require.Root(t)
	bin, err := engines.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cases := netbench.Known(1500)
	cases = append(cases,
		netbench.Case{MTU: 1500, Service: "uc", Op: "write", Size: 5003, PMTU: 512, QPs: 100, Depth: 16},
		netbench.Case{MTU: 1500, Service: "rc", Op: "fetch-add", Size: 8, PMTU: 256, QPs: 200, Depth: 16})
	cases = append(cases, netbench.Known(9000)...)
	cases = append(cases,
		netbench.Case{MTU: 9000, Service: "ud", Op: "send", Size: 1, PMTU: 2048, QPs: 10, Depth: 128},
		netbench.Case{MTU: 9000, Service: "rc", Op: "read", Size: 65536, PMTU: 256, QPs: 100, Depth: 1})
	o := netbench.Options{Bin: bin, Duration: 500 * time.Millisecond, Bound: 2 * time.Minute}
	err = netbench.RunSweep(context.Background(), o, cases, func(r netbench.Result) {
		t.Logf("%s: %d messages, %.2f Gbit/s, %d of %d packets sent again, %v", r.Case, r.Messages, r.Gbps, r.Again, r.Packets, r.Took.Round(time.Millisecond))
		if err := r.Miss(); err != nil {
			t.Errorf("%s: %v", r.Case, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
