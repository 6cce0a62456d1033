// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
)

// Targets of many queue pairs that all have much to send.
const (
	manyGoodput = 0.8  // of one queue pair's goodput in the same round
	manySent    = 1.05 // packets for one that is delivered
	manyJain    = 0.95 // of the queue pairs' messages
	manySize    = 4 << 10
	manyDepth   = 64 // messages outstanding on each queue pair
)

// manyRow is one row: an operation over so many queue pairs, round by round.
type manyRow struct {
	goodput, sent, jain []float64
	one                 []float64 // one queue pair's goodput, the mean of right before and right after
}

// busyQPs has 1, 100, 1000 and 10 000 queue pairs with 64 messages outstanding on each.
func busyQPs(_ context.Context, w *world, c config, r *report) error {
	counts := []int{1, 100, 1000, 10_000}
	rows := map[string][]manyRow{}
	for _, o := range operations {
		rows[o.name] = make([]manyRow, len(counts))
	}
	err := w.withEngines(nic.Options{}, func(devs [2]*nic.Device) error {
		for range max(1, c.rounds/2) {
			for _, o := range operations {
				one := new(manyRow)
				s := stream{op: o.op, size: manySize, under: manyDepth}
				if err := one.measure(devs, w, s, 1, c.each); err != nil {
					return fmt.Errorf("%s over one queue pair: %w", o.name, err)
				}
				for i, n := range counts {
					x := &rows[o.name][i]
					s.under = n * manyDepth
					if err := x.measure(devs, w, s, n, c.each); err != nil {
						return fmt.Errorf("%s over %d queue pairs: %w", o.name, n, err)
					}
					s.under = manyDepth
					if err := one.measure(devs, w, s, 1, c.each); err != nil {
						return fmt.Errorf("%s over one queue pair: %w", o.name, err)
					}
					last := len(one.goodput) - 1
					x.one = append(x.one, (one.goodput[last-1]+one.goodput[last])/2)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, o := range operations {
		all := rows[o.name]
		r.table(fmt.Sprintf("Queue pairs with %d messages of %s outstanding on each, %s, PMTU 4096", manyDepth, bytes(manySize), o.name),
			"QUEUE PAIRS\tGBIT/S\tOF ONE'S\tTARGET\t\tSENT FOR ONE DELIVERED\tTARGET\t\tJAIN\tTARGET\t\t")
		r.limit(slices.Concat(all[0].one, all[1].one, all[2].one, all[3].one))
		for i, n := range counts {
			x := &all[i]
			of, sent, jain := status.Median(ratios(x.goodput, x.one)), status.Median(x.sent), status.Median(x.jain)
			r.row("%d\t%.2f\t%.2f\t%s\t%.3f\t%s\t%.3f\t%s", n, status.Median(x.goodput)*8/1e9, of, r.atLeast(of, manyGoodput, "%.2f"),
				sent, r.atMost(sent, manySent, "%.2f"), jain, r.atLeast(jain, manyJain, "%.2f"))
		}
		r.end()
	}
	return nil
}

// turns is how often each queue pair has a turn while its row is measured, at least: shares of fewer
// say more of where the measurement began and ended than of fairness.
const turns = 10

// measure runs one round on fresh queue pairs, for as long as it takes to give each its turns.
func (x *manyRow) measure(devs [2]*nic.Device, w *world, s stream, n int, length time.Duration) error {
	p, err := newPair(devs, w.addrs, pairSpec{qps: n, depth: manyDepth, memory: 1 << 20, pmtu: rocev2.PMTU4096})
	if err != nil {
		return err
	}
	const perTurn = 4 // messages, by the quantum of the scheduler
	s.least = uint64(n * perTurn * turns)
	p.each = make([]uint64, n)
	var before [2]map[string]uint64
	f, err := p.run(s, length/4, length, func() { before = [2]map[string]uint64{counters(devs[0]), counters(devs[1])} }, nil)
	if err != nil {
		return err
	}
	var again, packets uint64
	for i, d := range devs {
		now := counters(d)
		again += now["tx_retransmits"] - before[i]["tx_retransmits"]
		packets += now["tx_data_pkts"] - before[i]["tx_data_pkts"]
	}
	x.goodput = append(x.goodput, f.perSecond()*float64(s.size))
	x.sent = append(x.sent, float64(packets)/float64(max(packets-again, 1)))
	x.jain = append(x.jain, jainIndex(p.each))
	return p.close()
}

// jainIndex is 1 if all are alike, and 1/n if one has everything (Jain, Chiu and Hawe, 1984).
func jainIndex(v []uint64) float64 {
	sum, squares := 0.0, 0.0
	for _, n := range v {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(v)) * squares)
}
