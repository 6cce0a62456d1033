// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// All pairs of values that perf takes occur, in few cases.
func TestPairwise(t *testing.T) {
	cases := pairwise()
	if n := len(cases); n < 50 || n > 150 {
		t.Errorf("%d cases", n)
	}
	seen := map[[2]any]bool{}
	for _, c := range cases {
		seen[[2]any{c.op, c.qps}] = true
		seen[[2]any{c.mtu, c.service}] = true
		seen[[2]any{c.pmtu, c.depth}] = true
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
		r    sweepResult
		miss bool
	}{
		{sweepResult{messages: 10, packets: 10_000}, false},
		{sweepResult{messages: 10, packets: 10_400, again: 400}, false},
		{sweepResult{messages: 10, packets: 10_600, again: 600}, true},
		{sweepResult{messages: 10, packets: 100, again: 20}, false},
		{sweepResult{packets: 10}, true},
		{sweepResult{messages: 10, err: context.DeadlineExceeded}, true},
	} {
		if got := c.r.miss(); (got != nil) != c.miss {
			t.Errorf("%+v: %v", c.r, got)
		}
	}
}

// stalled reports whether a result that misses may come of a machine that stalls: it has packets sent again that were
// not lost, has no message counted in so short a time, or ends a queue pair.
func stalled(r *sweepResult) bool {
	return r.err == nil || strings.Contains(r.err.Error(), verbs.StatusRetryExceeded.String())
}

// An error of perf is no stall, unless the peer was given up.
func TestStalled(t *testing.T) {
	for _, c := range []struct {
		r    sweepResult
		want bool
	}{
		{sweepResult{packets: 10}, true},
		{sweepResult{messages: 10, packets: 10_600, again: 600}, true},
		{sweepResult{err: fmt.Errorf("exit status 1: queue pair 3 (0x11): %w", verbs.StatusRetryExceeded)}, true},
		{sweepResult{err: fmt.Errorf("exit status 1: queue pair 3 (0x11): %w", verbs.StatusRemoteAccess)}, false},
		{sweepResult{err: fmt.Errorf("exit status 1: queue pair 3 (0x11): %w", verbs.StatusRNRRetryExceeded)}, false},
		{sweepResult{err: errors.New("perf printed no JSON")}, false},
		{sweepResult{err: errors.New("it has not ended within 5m0s")}, false},
	} {
		if got := stalled(&c.r); got != c.want {
			t.Errorf("%+v: %t", c.r, got)
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
	cases := known(1500)
	cases = append(cases,
		sweepCase{mtu: 1500, service: "uc", op: "write", size: 5003, pmtu: 512, qps: 100, depth: 16},
		sweepCase{mtu: 1500, service: "rc", op: "fetch-add", size: 8, pmtu: 256, qps: 200, depth: 16})
	cases = append(cases, known(9000)...)
	cases = append(cases,
		sweepCase{mtu: 9000, service: "ud", op: "send", size: 1, pmtu: 2048, qps: 10, depth: 128},
		sweepCase{mtu: 9000, service: "rc", op: "read", size: 65536, pmtu: 256, qps: 100, depth: 1})
	o := sweepOptions{bin: bin, duration: 500 * time.Millisecond, bound: 5 * time.Minute}
	// The cases that may miss because the machine stalls are run again; what is wrong misses each time.
	const runs = 5
	for run := 1; len(cases) > 0; run++ {
		var missed []sweepCase
		err = sweep(context.Background(), o, cases, func(r sweepResult) {
			err := r.miss()
			t.Logf("%s: %d messages, %.2f Gbit/s, %d of %d packets sent again, %v, %v", r.sweepCase, r.messages, r.gbps, r.again, r.packets, r.took.Round(time.Millisecond), err)
			if err == nil {
				return
			}
			if run == runs || !stalled(&r) {
				t.Errorf("%s: %v in run %d of %d", r.sweepCase, err, run, runs)
				return
			}
			missed = append(missed, r.sweepCase)
		})
		if err != nil {
			t.Fatal(err)
		}
		cases = missed
	}
}
