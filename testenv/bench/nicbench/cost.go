// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// messages are those of one measurement.
type messages struct {
	rate float64 // 1000 a second
	cpu  float64 // ns of each
}

// messageRate is how many small messages get through.
func messageRate(ctx context.Context, w *world, c config, r *compare.Report) error {
	counts := []int{1, 16}
	var runs []compare.Runs[messages]
	err := w.withEngines(nic.Options{}, func(devs [2]*nic.Device) (err error) {
		var all []compare.Candidate[messages]
		for _, qps := range counts {
			all = append(all, compare.Candidate[messages]{Name: fmt.Sprintf("%d queue pairs", qps), Measure: func(context.Context) (m messages, err error) {
				p, err := newPair(devs, w.addrs, pairSpec{qps: qps, depth: 256 / qps, memory: 1 << 16, pmtu: rocev2.PMTU1024})
				if err != nil {
					return m, err
				}
				f, err := p.run(stream{op: verbs.OpWrite, size: 64, under: 256}, c.each/4, c.each, nil, nil)
				if err != nil {
					return m, err
				}
				return messages{f.perSecond() / 1e3, float64(f.cpu) / float64(f.messages)}, p.close()
			}})
		}
		runs, err = compare.Turns(ctx, c.rounds, all...)
		return err
	})
	if err != nil {
		return err
	}
	t := r.Titled("Message rate, WRITE of 64 B, 256 outstanding", "QUEUE PAIRS\t1000 MESSAGES/S\tMIN TO MAX\tCPU NS A MESSAGE\t")
	for i, qps := range counts {
		rate := runs[i].Series(func(m messages) float64 { return m.rate })
		t.Row("%d\t%.0f\t%s\t%.0f", qps, rate.Median(), rate.Span("%.0f"), runs[i].Series(func(m messages) float64 { return m.cpu }).Median())
	}
	t.End()
	return nil
}

// Targets of many queue pairs.
var (
	flatTarget = compare.AtMost(1.15, "%.2f")  // time of a message with many, everybody spinning, over that with one
	idleTarget = compare.AtMost(4<<10, "%.0f") // bytes of a connected queue pair without work
)

// messageTimes are us of a message, the only one outstanding and one of 64.
type messageTimes struct{ single, bulk float64 }

// manyQPs has 1, 100 and 10 000 connected queue pairs: first what they take up, then
// what messages cost that go over one after the other.
func manyQPs(ctx context.Context, w *world, c config, r *compare.Report) error {
	counts := []int{1, 100, 10_000}
	spec := pairSpec{depth: 128, memory: 1 << 16, pmtu: rocev2.PMTU1024, cq: 1 << 10}
	var runs []compare.Runs[messageTimes]
	var idle memory
	err := w.withEngines(nic.Options{Spin: time.Hour}, func(devs [2]*nic.Device) (err error) {
		var all []compare.Candidate[messageTimes]
		var pairs []*pair
		for _, n := range counts {
			p, err := newPair(devs, w.addrs, spec)
			if err != nil {
				return err
			}
			pairs = append(pairs, p)
			before := memoryNow()
			for range n {
				if err := p.add(w.addrs, spec); err != nil {
					return err
				}
			}
			idle = memoryNow().less(before).per(2 * n)
			all = append(all, compare.Candidate[messageTimes]{Name: fmt.Sprintf("%d queue pairs", n), Measure: func(context.Context) (messageTimes, error) {
				return p.times(c.each)
			}})
		}
		runs, err = compare.Turns(ctx, c.rounds, all...)
		for _, p := range pairs {
			err = errors.Join(err, p.close())
		}
		return err
	})
	if err != nil {
		return err
	}
	t := r.Titled("Cost of connected queue pairs, WRITE of 64 B over one after the other, everybody spinning",
		"QUEUE PAIRS\tP50 US, ONE OUTSTANDING\tMIN TO MAX\tOVER THE FIRST\tTARGET\t\tUS A MESSAGE, 64 OUTSTANDING\tMIN TO MAX\t")
	single := func(i int) compare.Series { return runs[i].Series(func(m messageTimes) float64 { return m.single }) }
	t.Reference(single(0))
	for i, n := range counts {
		over, verdict := single(i).Over(single(0)), compare.None
		if i > 0 {
			verdict = t.Median(flatTarget, over)
		}
		bulk := runs[i].Series(func(m messageTimes) float64 { return m.bulk })
		t.Row("%d\t%.2f\t%s\t%.3f\t%s\t%.2f\t%s", n, single(i).Median(), single(i).Span("%.2f"), over.Median(), verdict, bulk.Median(), bulk.Span("%.2f"))
	}
	t.End("With 64 outstanding on one queue pair one ACK serves many messages, on 64 queue pairs each has its own: no target there.")
	t = r.Titled("Memory of an idle connected queue pair", "BYTES\tGO'S HEAP\tRESIDENT IN ALL\tTARGET\t\t")
	t.Row("\t%.0f\t%.0f\t%s", idle.heap, idle.resident, t.Judge(idleTarget, max(idle.heap, idle.resident), nil))
	t.End()
	return nil
}

// times measures messages over one queue pair after the other.
func (p *pair) times(length time.Duration) (m messageTimes, err error) {
	s := stream{op: verbs.OpWrite, size: 64, under: 64}
	// All of them once, so that what only the first message needs is there.
	if _, err := p.run(s, 0, length, nil, nil); err != nil {
		return m, err
	}
	all, err := p.roundTrips(verbs.OpWrite, 64, length, true)
	if err != nil {
		return m, err
	}
	f, err := p.run(s, length/4, length, nil, nil)
	return messageTimes{tripsOf(all).p50, 1e6 / f.perSecond()}, err
}

// memory is what the process takes up, in bytes.
type memory struct{ heap, resident float64 }

func memoryNow() memory {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{float64(m.HeapAlloc), resident()}
}

func (m memory) less(n memory) memory { return memory{m.heap - n.heap, m.resident - n.resident} }
func (m memory) per(n int) memory     { return memory{m.heap / float64(n), m.resident / float64(n)} }

// resident is VmRSS of /proc/self/status.
func resident() float64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmRSS:"); ok {
			var kb float64
			_, _ = fmt.Sscan(rest, &kb)
			return kb * 1024
		}
	}
	return 0
}

// allocationTarget is the most allocations for one packet.
var allocationTarget = compare.AtMost(0.001, "%.3f")

// allocations fails if packets cost memory in steady state. The median of some windows
// counts: what a loss needs for the first time, such as slots for out-of-order packets,
// is allocated when it happens.
func allocations(_ context.Context, w *world, c config, r *compare.Report) error {
	const windows = 3
	t := r.Titled("Allocations in steady state, both hosts", "8 KB MESSAGES\tPACKETS\tALLOCATIONS\tPER PACKET\tTARGET\t\t")
	err := w.withEngines(nic.Options{}, func(devs [2]*nic.Device) error {
		for _, o := range operations {
			p, err := newPair(devs, w.addrs, pairSpec{qps: 1, depth: 64, memory: 1 << 20, pmtu: rocev2.PMTU1024})
			if err != nil {
				return err
			}
			sent := func() uint64 { return counters(devs[0])["sent_pkts"] + counters(devs[1])["sent_pkts"] }
			var packets uint64
			var allocs, perPacket compare.Series
			for range windows {
				var a, b runtime.MemStats
				var from, to uint64
				_, err = p.run(stream{op: o.op, size: 8 << 10, under: 32}, c.each, c.each,
					func() { from = sent(); runtime.ReadMemStats(&a) },
					func() { runtime.ReadMemStats(&b); to = sent() })
				if err != nil {
					return err
				}
				n := float64(b.Mallocs - a.Mallocs)
				packets += to - from
				allocs, perPacket = append(allocs, n), append(perPacket, n/float64(to-from))
			}
			if err := p.close(); err != nil {
				return err
			}
			per := perPacket.Median()
			t.Row("%s\t%d\t%s\t%.5f\t%s", o.name, packets, allocs.Span("%.0f"), per, t.Judge(allocationTarget, per, nil))
		}
		return nil
	})
	t.End()
	return err
}
