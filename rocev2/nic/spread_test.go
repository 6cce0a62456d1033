// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// BenchmarkSpread is a WRITE of 64 bytes with its ACK and completion, over one pair of
// queue pairs after the other, without the kernel: an engine speaks to itself. What
// the row with many takes longer is what caches and TLB do not hold of their state.
// p50-ns is the median of 10 000, of the best round of them: the machine may be shared.
func BenchmarkSpread(b *testing.B) {
	h := engines.New(b, topo.Spec{Hosts: topo.Hosts(1)}, "--pacer", "none")[0]
	h.MustOpen(b, nic.Options{Spin: -1})
	s := newSide(b, h, verbs.RC, 1<<16)
	wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: s.sge(0, 64), RemoteAddr: s.va, RKey: s.key}
	var qps []verbs.QP
	var out [1]verbs.Completion
	const round = 10_000
	took := make([]time.Duration, round)
	once := func(n int) (median time.Duration) {
		for i := range took {
			start := time.Now()
			if err := qps[i%n].PostSend(&wr); err != nil {
				b.Fatal(err)
			}
			for s.cq.Poll(out[:]) == 0 {
			}
			if out[0].Status != verbs.StatusSuccess {
				b.Fatal(out[0].Status)
			}
			took[i] = time.Since(start)
		}
		slices.Sort(took)
		return took[round/2]
	}
	for _, n := range []int{1, 100, 1000, 10_000} {
		for len(qps) < n {
			qps = append(qps, s.connect(b, s))
		}
		once(n) // what only the first message needs
		runtime.GC()
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			best := time.Hour
			for b.Loop() {
				best = min(best, once(n))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(best.Nanoseconds()), "p50-ns")
		})
	}
}
