// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// benchDevices calls do with the engine in this process and with the device of a server that is a
// process of its own.
func benchDevices(b *testing.B, do func(b *testing.B, d verbs.Device, alloc func(int) ([]byte, error))) {
	b.Run("in-process", func(b *testing.B) {
		d := devices.Loopback(b)
		do(b, d, func(n int) ([]byte, error) { return make([]byte, n), nil })
	})
	b.Run("server", func(b *testing.B) {
		_, open := benchServer(b)
		d := open()
		do(b, d, d.Alloc)
	})
}

func benchPair(b *testing.B, d verbs.Device, alloc func(int) ([]byte, error), size int) *couple {
	p := newCouple(b, d, alloc, verbs.QPInit{Type: verbs.RC, MaxSend: 64, MaxInline: 64}, size, false)
	p.connect()
	return p
}

func pollOne(q verbs.CQ, c []verbs.Completion) int {
	for {
		if n := q.Poll(c); n > 0 {
			return n
		}
	}
}

// From work request to completion, with polling: the median, and that of PostSend alone, by the rings of a
// server and by the engine in this process, in one run. On a busy machine the medians hold and the averages
// do not.
func BenchmarkLatency(b *testing.B) {
	benchDevices(b, func(b *testing.B, d verbs.Device, alloc func(int) ([]byte, error)) {
		p := benchPair(b, d, alloc, 4096)
		wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled | verbs.Inline, Data: make([]byte, 8), RemoteAddr: p.mr[1].VA(), RKey: p.mr[1].RKey()}
		c := make([]verbs.Completion, 1)
		var posts, trips []time.Duration
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for b.Loop() {
			begin := time.Now()
			if err := p.qp[0].PostSend(&wr); err != nil {
				b.Fatal(err)
			}
			posts = append(posts, time.Since(begin))
			pollOne(p.cq[0], c)
			trips = append(trips, time.Since(begin))
		}
		slices.Sort(posts)
		slices.Sort(trips)
		b.ReportMetric(float64(trips[len(trips)/2]), "p50-ns")
		b.ReportMetric(float64(posts[len(posts)/2]), "p50-post-ns")
	})
}

// Writes of 64 KB, 16 outstanding.
func BenchmarkGoodput(b *testing.B) {
	for _, size := range []int{4096, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			benchDevices(b, func(b *testing.B, d verbs.Device, alloc func(int) ([]byte, error)) {
				p := benchPair(b, d, alloc, size)
				wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: p.sgl(0, 0, size), RemoteAddr: p.mr[1].VA(), RKey: p.mr[1].RKey()}
				c := make([]verbs.Completion, 16)
				outstanding := 0
				b.SetBytes(int64(size))
				for b.Loop() {
					if err := p.qp[0].PostSend(&wr); err != nil {
						b.Fatal(err)
					}
					if outstanding++; outstanding == 16 {
						outstanding -= pollOne(p.cq[0], c)
					}
				}
			})
		})
	}
}

// CPU time of a server with 16 idle clients, in percent of a core.
func BenchmarkIdle(b *testing.B) {
	p, open := benchServer(b)
	for range 16 {
		newEnd(b, open(), 4096, verbs.QPInit{Type: verbs.RC})
	}
	before, start := cpuTime(b, p.cmd.Process.Pid), time.Now()
	for b.Loop() {
		time.Sleep(100 * time.Millisecond)
	}
	b.ReportMetric(100*float64(cpuTime(b, p.cmd.Process.Pid)-before)/float64(time.Since(start)), "%core")
}
