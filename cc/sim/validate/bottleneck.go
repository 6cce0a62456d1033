// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"fmt"
	"math"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/schemes"
)

// bottleneck is endless flows from hosts of a star to host 0.
type bottleneck struct {
	scheme  string
	params  []schemes.Param
	bps     uint64
	delay   time.Duration // of each link
	senders int
	perHost int           // flows of each sender
	each    time.Duration // start of the next flow after the one before
	settle  time.Duration // before this nothing is measured
	length  time.Duration
}

// outcome is what was measured between settle and length.
type outcome struct {
	meanQueue float64   // bytes of wire in the queue to host 0
	goodput   []float64 // payload bit/s of each flow
	dropped   float64   // data packets dropped, share of those sent
	link      float64   // utilisation
}

func (b *bottleneck) run() (*outcome, error) {
	s, err := schemes.New(b.scheme, b.params...)
	if err != nil {
		return nil, err
	}
	n, err := sim.New(sim.Config{Seed: 1, BufferBytes: 32_000_000, Transport: sim.Selective}, star(b.senders+1, b.bps, b.delay), s)
	if err != nil {
		return nil, err
	}
	port, err := n.ViewPort(b.senders+1, 0)
	if err != nil {
		return nil, err
	}
	var flows []*sim.Flow
	for i := range b.senders * max(b.perHost, 1) {
		f, err := n.Add(sim.FlowSpec{Src: 1 + i%b.senders, Dst: 0, Bytes: endless, Start: time.Duration(i) * b.each})
		if err != nil {
			return nil, err
		}
		flows = append(flows, f)
	}
	n.Run(b.settle)
	before := make([]int64, len(flows))
	for i, f := range flows {
		before[i] = f.ReceivedBytes()
	}
	start, droppedBefore := port.SentBytes(), dropped(n)
	samples, sum := 0, 0.0
	const every = time.Microsecond
	n.Every(b.settle+every, every, func() {
		samples++
		sum += float64(port.QueueBytes())
	})
	n.Run(b.length)
	end := port.SentBytes()
	o := &outcome{meanQueue: sum / float64(samples)}
	seconds := (b.length - b.settle).Seconds()
	var payload float64
	for i, f := range flows {
		g := float64(f.ReceivedBytes()-before[i]) * 8 / seconds
		o.goodput = append(o.goodput, g)
		payload += g
	}
	o.link = float64(end-start) * 8 / seconds / float64(b.bps)
	lost := float64(dropped(n) - droppedBefore)
	o.dropped = lost / (payload*seconds/8/1000 + lost)
	return o, nil
}

// endless is more than any run can send.
const endless = 1 << 40

// jain is the fairness index.
func jain(x []float64) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return math.NaN()
	}
	return sum * sum / (float64(len(x)) * squares)
}

// twoToOne is V7: the queue of two flows at line rate that meet.
func twoToOne(length time.Duration) ([]Row, error) {
	var rows []Row
	for _, c := range []struct {
		scheme string
		paper  Range // kB
		factor float64
	}{
		{"dcqcn", at(550), 2},
		{"hpcc", Range{0, 30}, 1},
	} {
		b := bottleneck{scheme: c.scheme, bps: 100e9, delay: time.Microsecond, senders: 2, settle: length / 4, length: length}
		o, err := b.run()
		if err != nil {
			return nil, err
		}
		rows = append(rows, Row{ID: "V7", What: "2:1 at 100 Gb/s, mean queue in kB", Scheme: c.scheme, Paper: c.paper, Ours: o.meanQueue / 1e3,
			OK: c.paper.within(o.meanQueue/1e3, c.factor), Note: fmt.Sprintf("link %.3f, Jain %.3f", o.link, jain(o.goodput))})
	}
	return rows, nil
}

// lateJoiner is V8: of two flows of TIMELY one that starts later keeps another
// share, because a gradient of zero fits any pair of rates; flow scaling equalises.
func lateJoiner(length time.Duration) ([]Row, error) {
	var rows []Row
	for _, c := range []struct {
		scheme string
		paper  Range
	}{
		{"timely", Range{0, .8}},
		{"swift", Range{.9, 1}},
	} {
		b := bottleneck{scheme: c.scheme, bps: 10e9, delay: 4 * time.Microsecond, senders: 2, each: length / 10, settle: length / 2, length: length}
		o, err := b.run()
		if err != nil {
			return nil, err
		}
		r := min(o.goodput[0], o.goodput[1]) / max(o.goodput[0], o.goodput[1])
		rows = append(rows, Row{ID: "V8", What: "2:1 at 10 Gb/s, the second late: slower/faster", Scheme: c.scheme, Paper: c.paper, Ours: r,
			OK: c.paper.within(r, 1), Note: fmt.Sprintf("link %.3f, queue %.0f kB", o.link, o.meanQueue/1e3)})
	}
	return rows, nil
}

// rootN is V9: the queue of N flows of Swift grows as the square root of N, and
// works below one packet of window.
func rootN(length time.Duration) ([]Row, error) {
	counts := []int{16, 64, 256}
	var queue []float64
	for _, n := range counts {
		b := bottleneck{scheme: "swift", bps: 100e9, delay: 2 * time.Microsecond, senders: 16, perHost: n / 16, settle: length / 2, length: length}
		o, err := b.run()
		if err != nil {
			return nil, err
		}
		queue = append(queue, o.meanQueue)
	}
	ratio := (queue[2] - queue[1]) / (queue[1] - queue[0])
	return []Row{{ID: "V9", What: "16, 64, 256 flows: growth of the queue, second step over first", Scheme: "swift", Paper: at(2), Ours: ratio,
		OK: at(2).within(ratio, 1.4), Note: fmt.Sprintf("queues %.0f, %.0f, %.0f kB", queue[0]/1e3, queue[1]/1e3, queue[2]/1e3)}}, nil
}

// manyFlows is the paper's 5000:1 with fewer: far more flows than packets fit the
// way.
func manyFlows(senders, perHost int, length time.Duration) ([]Row, error) {
	b := bottleneck{scheme: "swift", bps: 50e9, delay: 2 * time.Microsecond, senders: senders, perHost: perHost, settle: length / 2, length: length}
	o, err := b.run()
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d:1 at 50 Gb/s, ", senders*perHost)
	j := jain(o.goodput)
	return []Row{
		{ID: "V9", What: what + "link use", Scheme: "swift", Paper: at(.99), Ours: o.link, OK: o.link > .95},
		{ID: "V9", What: what + "Jain", Scheme: "swift", Paper: at(.91), Ours: j, OK: j > .85},
		{ID: "V9", What: what + "loss in %", Scheme: "swift", Paper: Range{0, .001}, Ours: o.dropped * 100, OK: o.dropped < 1e-4,
			Note: fmt.Sprintf("queue %.0f kB; the paper's 5000 flows, 110 us", o.meanQueue/1e3)},
	}, nil
}
