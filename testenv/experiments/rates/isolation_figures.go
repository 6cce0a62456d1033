// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Phase is one measured stretch of time.
type Phase struct {
	Name     string
	From, To time.Duration
	Dest     [2]Figures // receivers A and B
	Late     float64    // share of the readings that the machine was too busy to take in time
}

// Figures of one bottleneck in one phase.
type Figures struct {
	RateBPS   uint64  // rate of the bottleneck
	PassedBPS float64 // bits of frames that it passed, per second
	Fill      float64 // PassedBPS as a share of RateBPS
	QueueMean float64 // bytes
	QueueP99  float64 // bytes
	Drops     uint64
	TxMean    time.Duration // mean transmit time of the table, over the readings; 0 without any
	RxMean    time.Duration
}

func figures(samples []Sample, dest int, rate uint64) Figures {
	f := Figures{RateBPS: rate}
	first, last := samples[0].Queue[dest], samples[len(samples)-1].Queue[dest]
	f.PassedBPS = float64(last.Sent-first.Sent) * 8 / last.At.Sub(first.At).Seconds()
	f.Fill = f.PassedBPS / float64(rate)
	f.Drops = uint64(last.Drops - first.Drops)
	var backlog []float64
	var sum float64
	var tx, rx, n int64
	for _, s := range samples {
		b := float64(s.Queue[dest].Backlog)
		backlog = append(backlog, b)
		sum += b
		if r := s.Rows[dest]; r != nil {
			tx, rx, n = tx+r.TxNS, rx+r.RxNS, n+1
		}
	}
	f.QueueMean = sum / float64(len(samples))
	slices.Sort(backlog)
	f.QueueP99 = backlog[(len(backlog)*99+99)/100-1]
	if n > 0 {
		f.TxMean, f.RxMean = time.Duration(tx/n), time.Duration(rx/n)
	}
	return f
}

// Limits of requirement S1.9's acceptance.
const (
	minFill        = 0.90
	maxQueueShare  = 0.50
	maxOtherChange = 0.05
	maxLate        = 0.10
)

// OtherChange is by what share B's rate changed when A was slowed.
func (r *Result) OtherChange() float64 {
	before, after := r.Phases[1].Dest[1].PassedBPS, r.Phases[2].Dest[1].PassedBPS
	return (after - before) / before
}

// Valid reports whether the machine kept up: the generator filled the bottlenecks
// without the product, and readings came in time. Otherwise the run says nothing.
func (r *Result) Valid() bool {
	for _, p := range r.Phases {
		if p.Late > maxLate {
			return false
		}
	}
	return r.Phases[0].Dest[0].Fill >= minFill && r.Phases[0].Dest[1].Fill >= minFill
}

// Failures lists what the product missed, as sentences; empty means accepted.
func (r *Result) Failures() (out []string) {
	miss := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !r.Valid() {
		miss("the machine was too busy, so the figures say nothing: repeat the run (bottlenecks %.1f and %.1f %% full without the product; readings late: %.0f, %.0f, %.0f %%)",
			100*r.Phases[0].Dest[0].Fill, 100*r.Phases[0].Dest[1].Fill,
			100*r.Phases[0].Late, 100*r.Phases[1].Late, 100*r.Phases[2].Late)
	}
	without, with := r.Phases[0], r.Phases[1]
	for i, name := range names {
		f := with.Dest[i]
		if f.Fill < minFill {
			miss("receiver %s: bottleneck %.1f %% full, want %.0f %%", name, 100*f.Fill, 100*minFill)
		}
		if share := f.QueueMean / without.Dest[i].QueueMean; !(share < maxQueueShare) {
			miss("receiver %s: mean queue is %.0f %% of that without the product, want below %.0f %%", name, 100*share, 100*maxQueueShare)
		}
	}
	if c := r.OtherChange(); !(math.Abs(c) < maxOtherChange) {
		miss("slowing A changed B's rate by %+.1f %%, want less than %.0f %%", 100*c, 100*maxOtherChange)
	}
	if r.Damaged != 0 {
		miss("%d packets arrived damaged", r.Damaged)
	}
	return out
}

var names = [2]string{"A", "B"}
