// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
)

// messageRate is how many small messages get through.
func messageRate(_ context.Context, w *world, c config, r *report) error {
	counts := []int{1, 16}
	rates, cpu := make([][]float64, len(counts)), make([][]float64, len(counts))
	err := w.withEngines(nic.Options{}, func(devs [2]*nic.Device) error {
		for range c.rounds {
			for i, qps := range counts {
				p, err := newPair(devs, w.addrs, pairSpec{qps: qps, depth: 256 / qps, memory: 1 << 16, pmtu: rocev2.PMTU1024})
				if err != nil {
					return err
				}
				f, err := p.run(stream{op: verbs.OpWrite, size: 64, under: 256}, c.each/4, c.each, nil, nil)
				if err != nil {
					return err
				}
				rates[i] = append(rates[i], f.perSecond()/1e3)
				cpu[i] = append(cpu[i], float64(f.cpu)/float64(f.messages))
				if err := p.close(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.table("Message rate, WRITE of 64 B, 256 outstanding", "QUEUE PAIRS\t1000 MESSAGES/S\tMIN TO MAX\tCPU NS A MESSAGE\t")
	for i, qps := range counts {
		r.row("%d\t%.0f\t%s\t%.0f", qps, status.Median(rates[i]), span(rates[i], "%.0f"), status.Median(cpu[i]))
	}
	r.end()
	return nil
}

// Targets of many queue pairs.
const (
	flatTarget = 1.15    // time of a message with many, everybody spinning, over that with one
	idleTarget = 4 << 10 // bytes of a connected queue pair without work
)

// manyQPs has 1, 100 and 10 000 connected queue pairs: first what they take up, then
// what messages cost that go over one after the other.
func manyQPs(_ context.Context, w *world, c config, r *report) error {
	counts := []int{1, 100, 10_000}
	spec := pairSpec{depth: 128, memory: 1 << 16, pmtu: rocev2.PMTU1024, cq: 1 << 10}
	single, bulk := make([][]float64, len(counts)), make([][]float64, len(counts))
	var idle memory
	err := w.withEngines(nic.Options{Spin: time.Hour}, func(devs [2]*nic.Device) error {
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
		}
		for range c.rounds {
			for i, p := range pairs {
				// All of them once, so that what only the first message needs is there.
				if _, err := p.run(stream{op: verbs.OpWrite, size: 64, under: 64}, 0, c.each, nil, nil); err != nil {
					return err
				}
				all, err := p.roundTrips(verbs.OpWrite, 64, c.each, true)
				if err != nil {
					return err
				}
				slices.Sort(all)
				single[i] = append(single[i], us(all[len(all)/2]))
				f, err := p.run(stream{op: verbs.OpWrite, size: 64, under: 64}, c.each/4, c.each, nil, nil)
				if err != nil {
					return err
				}
				bulk[i] = append(bulk[i], 1e6/f.perSecond())
			}
		}
		var errs []error
		for _, p := range pairs {
			errs = append(errs, p.close())
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	r.table("Cost of connected queue pairs, WRITE of 64 B over one after the other, everybody spinning",
		"QUEUE PAIRS\tP50 US, ONE OUTSTANDING\tMIN TO MAX\tOVER THE FIRST\tTARGET\t\tUS A MESSAGE, 64 OUTSTANDING\tMIN TO MAX\t")
	r.limit(single[0])
	for i, n := range counts {
		over, verdict := status.Median(ratios(single[i], single[0])), none
		if i > 0 {
			verdict = r.atMost(over, flatTarget, "%.2f")
		}
		r.row("%d\t%.2f\t%s\t%.3f\t%s\t%.2f\t%s", n, status.Median(single[i]), span(single[i], "%.2f"), over, verdict, status.Median(bulk[i]), span(bulk[i], "%.2f"))
	}
	r.end("With 64 outstanding on one queue pair one ACK serves many messages, on 64 queue pairs each has its own: no target there.")
	r.table("Memory of an idle connected queue pair", "BYTES\tGO'S HEAP\tRESIDENT IN ALL\tTARGET\t\t")
	r.row("\t%.0f\t%.0f\t%s", idle.heap, idle.resident, r.atMost(max(idle.heap, idle.resident), idleTarget, "%.0f"))
	r.end()
	return nil
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

// allocations fails if packets cost memory in steady state. The median of some windows
// counts: what a loss needs for the first time, such as slots for out-of-order packets,
// is allocated when it happens.
func allocations(_ context.Context, w *world, c config, r *report) error {
	const target, windows = 0.001, 3
	type result struct {
		name              string
		packets           uint64
		allocs, perPacket []float64
	}
	var all []*result
	err := w.withEngines(nic.Options{}, func(devs [2]*nic.Device) error {
		for _, o := range operations {
			p, err := newPair(devs, w.addrs, pairSpec{qps: 1, depth: 64, memory: 1 << 20, pmtu: rocev2.PMTU1024})
			if err != nil {
				return err
			}
			x := &result{name: o.name}
			all = append(all, x)
			sent := func() uint64 { return counters(devs[0])["sent_pkts"] + counters(devs[1])["sent_pkts"] }
			for range windows {
				var a, b runtime.MemStats
				var from, to uint64
				_, err = p.run(stream{op: o.op, size: 8 << 10, under: 32}, c.each, c.each,
					func() { from = sent(); runtime.ReadMemStats(&a) },
					func() { runtime.ReadMemStats(&b); to = sent() })
				if err != nil {
					return err
				}
				allocs := float64(b.Mallocs - a.Mallocs)
				x.packets += to - from
				x.allocs, x.perPacket = append(x.allocs, allocs), append(x.perPacket, allocs/float64(to-from))
			}
			if err := p.close(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.table("Allocations in steady state, both hosts", "8 KB MESSAGES\tPACKETS\tALLOCATIONS\tPER PACKET\tTARGET\t\t")
	for _, x := range all {
		per := status.Median(x.perPacket)
		r.row("%s\t%d\t%s\t%.5f\t%s", x.name, x.packets, span(x.allocs, "%.0f"), per, r.atMost(per, target, "%.3f"))
	}
	r.end()
	return nil
}
