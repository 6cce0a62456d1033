// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// sendLimiter is a queue pair that knows why it sends nothing. Those of package nic do.
type sendLimiter interface {
	SendLimit() (qp.SendLimit, error)
}

// sampleInterval is the time between two samples: rare enough to cost nothing.
const sampleInterval = 20 * time.Millisecond

// countLimits asks the queue pairs, one after the other, what keeps them from sending, until
// the context ends or the device is gone. It returns how often each answer came.
func countLimits(ctx context.Context, qps []verbs.QP) map[string]uint64 {
	limits := map[string]uint64{}
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return limits
		case <-tick.C:
		}
		q, ok := qps[i%len(qps)].(sendLimiter)
		if !ok {
			return limits
		}
		why, err := q.SendLimit()
		if err != nil {
			return limits
		}
		limits[why.String()]++
	}
}

// sampleLimits samples during the run until the function that it returns is called. A run for
// latency has one message at a time, which nothing limits: it is not disturbed.
func (r *run) sampleLimits(ctx context.Context) (stop func() map[string]uint64) {
	if r.plan.Latency {
		return func() map[string]uint64 { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan map[string]uint64, 1)
	go func() { done <- countLimits(ctx, r.qps) }()
	return func() map[string]uint64 {
		cancel()
		return <-done
	}
}

// limitShares is the text for a person, the most frequent limit first: "congestion window 63%".
func limitShares(limits map[string]uint64) string {
	type share struct {
		name string
		n    uint64
	}
	var all []share
	total := uint64(0)
	for name, n := range limits {
		if name == qp.NotLimited.String() {
			name = "nothing"
		}
		all = append(all, share{name, n})
		total += n
	}
	slices.SortFunc(all, func(a, b share) int { return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.name, b.name)) })
	var out []string
	for _, s := range all {
		if percent := (100*s.n + total/2) / total; percent > 0 {
			out = append(out, fmt.Sprintf("%s %d%%", s.name, percent))
		}
	}
	return strings.Join(out, ", ")
}
