// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"fmt"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// Queue pairs that all have much to send.
const (
	manySize  = 4 << 10
	manyDepth = 64 // messages outstanding on each queue pair
)

// Targets of them.
var (
	manyGoodput = compare.AtLeast(0.8, "%.2f")  // share of one queue pair's goodput right before and after
	manySent    = compare.AtMost(1.05, "%.2f")  // packets for one that is delivered
	manyJain    = compare.AtLeast(0.95, "%.2f") // fairness of the queue pairs' messages
)

// crowded is one measurement of many queue pairs.
type crowded struct {
	goodput float64 // Gbit/s
	sent    float64 // packets for one that is delivered
	jain    float64
}

// busyQPs has 1, 100, 1000 and 10 000 queue pairs with 64 messages outstanding on each.
func busyQPs(ctx context.Context, w *world, c config, r *compare.Report) error {
	counts := []int{1, 100, 1000, 10_000}
	got := make([]compare.Referred[crowded], len(operations))
	err := w.withEngines(nic.Options{}, func(devs [2]*nic.Device) (err error) {
		for i, o := range operations {
			candidate := func(n int) compare.Candidate[crowded] {
				return compare.Candidate[crowded]{Name: fmt.Sprintf("%s over %d queue pairs", o.name, n), Measure: func(context.Context) (crowded, error) {
					return measureMany(devs, w, stream{op: o.op, size: manySize, under: n * manyDepth}, n, c.each)
				}}
			}
			var all []compare.Candidate[crowded]
			for _, n := range counts {
				all = append(all, candidate(n))
			}
			if got[i], err = compare.Refer(ctx, max(1, c.rounds/2), candidate(1), all...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	goodput := func(x crowded) float64 { return x.goodput }
	for k, o := range operations {
		t := r.Titled(fmt.Sprintf("Queue pairs with %d messages of %s outstanding on each, %s, PMTU 4096", manyDepth, bytes(manySize), o.name),
			"QUEUE PAIRS\tGBIT/S\tOF ONE'S\tTARGET\t\tSENT FOR ONE DELIVERED\tTARGET\t\tJAIN\tTARGET\t\t")
		t.Reference(got[k].Reference.Series(goodput))
		for i, n := range counts {
			runs, of := got[k].Runs[i], got[k].Shares(i, goodput)
			sent, jain := runs.Series(func(x crowded) float64 { return x.sent }), runs.Series(func(x crowded) float64 { return x.jain })
			t.Row("%d\t%.2f\t%.2f\t%s\t%.3f\t%s\t%.3f\t%s", n, runs.Series(goodput).Median(), of.Median(), t.Median(manyGoodput, of),
				sent.Median(), t.Median(manySent, sent), jain.Median(), t.Median(manyJain, jain))
		}
		t.End()
	}
	return nil
}

// turns is how often each queue pair has a turn while its row is measured, at least: shares of fewer
// say more of where the measurement began and ended than of fairness.
const turns = 10

// measureMany measures fresh queue pairs, for as long as it takes to give each its turns.
func measureMany(devs [2]*nic.Device, w *world, s stream, n int, length time.Duration) (x crowded, err error) {
	p, err := newPair(devs, w.addrs, pairSpec{qps: n, depth: manyDepth, memory: 1 << 20, pmtu: rocev2.PMTU4096})
	if err != nil {
		return x, err
	}
	const perTurn = 4 // messages, by the quantum of the scheduler
	s.least = uint64(n * perTurn * turns)
	p.each = make([]uint64, n)
	var before [2]map[string]uint64
	f, err := p.run(s, length/4, length, func() { before = [2]map[string]uint64{counters(devs[0]), counters(devs[1])} }, nil)
	if err != nil {
		return x, err
	}
	var again, packets uint64
	for i, d := range devs {
		now := counters(d)
		again += now["tx_retransmits"] - before[i]["tx_retransmits"]
		packets += now["tx_data_pkts"] - before[i]["tx_data_pkts"]
	}
	messages := make([]float64, n)
	for i, v := range p.each {
		messages[i] = float64(v)
	}
	return crowded{
		goodput: f.perSecond() * float64(s.size) / gbit,
		sent:    float64(packets) / float64(max(packets-again, 1)),
		jain:    jain(messages),
	}, p.close()
}

// jain is 1 if all are alike, and 1/n if one has everything (Jain, Chiu and Hawe, 1984).
func jain(v []float64) float64 {
	squares := floats.Dot(v, v)
	if squares == 0 {
		return 0
	}
	return floats.Sum(v) * floats.Sum(v) / (float64(len(v)) * squares)
}
