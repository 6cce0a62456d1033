// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/softroce/softroce-xdp/cc/sim/experiment"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// queueGroup has the completion times of all workloads with the same switches.
type queueGroup struct {
	Queues    int // data queues of each port
	Workloads []workloadSection
}

// workloadSection is one workload at several loads.
type workloadSection struct {
	Title string
	Plot  Plot
	Loads []loadSection
}

type loadSection struct {
	Load     string
	Messages int // messages in all seeds
	Seeds    int
	P50, P99 experiment.Table
}

// split separates completion scenarios with one data queue from those with several.
func split(completion [][]*experiment.Summary) (oneQueue, bySize [][]*experiment.Summary) {
	for _, g := range completion {
		if g[0].Scenario.Switch.Queues > 1 {
			bySize = append(bySize, g)
		} else {
			oneQueue = append(oneQueue, g)
		}
	}
	return oneQueue, bySize
}

func (d *Document) queueGroup(groups [][]*experiment.Summary, prefix string) (q queueGroup) {
	if len(groups) > 0 {
		q.Queues = groups[0][0].Scenario.Switch.Queues
	}
	for len(groups) > 0 {
		sizes := sizesOf(groups[0][0].Scenario)
		n := slices.IndexFunc(groups, func(g []*experiment.Summary) bool { return sizesOf(g[0].Scenario) != sizes })
		if n < 0 {
			n = len(groups)
		}
		title, _, _ := strings.Cut(groups[0][0].Scenario.Title, " at ")
		if q.Queues > 1 {
			title += ", queues by size"
		}
		w := workloadSection{Title: title, Plot: slowdownPlot(prefix+sizes+".svg", title, groups[:n])}
		for _, g := range groups[:n] {
			counts := bucketCounts(g)
			all := 0
			for _, c := range counts {
				all += c
			}
			w.Loads = append(w.Loads, loadSection{loadOf(g[0].Scenario), all, len(g[0].Results), slowdowns(g, 50, counts), slowdowns(g, 99, counts)})
		}
		d.Plots = append(d.Plots, w.Plot)
		q.Workloads = append(q.Workloads, w)
		groups = groups[n:]
	}
	return q
}

func sizesOf(s *scenario.Scenario) string {
	for _, t := range s.Traffic {
		if t.Workload != nil {
			return t.Workload.Sizes
		}
	}
	return s.Name
}

// bucketCounts is how many messages each bucket has in all seeds. It is the same for all
// schemes: they get the same messages.
func bucketCounts(group []*experiment.Summary) []int {
	counts := make([]int, len(group[0].Results[0].Buckets))
	for _, r := range group[0].Results {
		for i, b := range r.Buckets {
			if i < len(counts) {
				counts[i] += b.Count
			}
		}
	}
	return counts
}

// slowdowns tables percentile p of the slowdown by size with its spread over the seeds.
func slowdowns(group []*experiment.Summary, p int, counts []int) experiment.Table {
	t := experiment.Table{Header: []string{"scheme"}}
	row := []string{"messages in all seeds"}
	for i, b := range group[0].Results[0].Buckets {
		t.Header = append(t.Header, experiment.BucketName(b.Bytes))
		row = append(row, fmt.Sprint(counts[i]))
	}
	for _, s := range group {
		row := []string{s.Scheme}
		for i := range t.Header[1:] {
			row = append(row, spreadOf(s.SlowdownsBySeed(i, p), func(v float64) string { return fmt.Sprintf("%.2f", v) }))
		}
		t.Rows = append(t.Rows, row)
	}
	t.Rows = append(t.Rows, row)
	return t
}

// spreadOf writes the median of sorted values, and their range where it shows: 1.68 (1.65..1.71).
func spreadOf(sorted []float64, text func(float64) string) string {
	if len(sorted) == 0 {
		return "-"
	}
	low, high := text(sorted[0]), text(sorted[len(sorted)-1])
	middle := text(median(sorted))
	if low == high {
		return middle
	}
	return fmt.Sprintf("%s (%s..%s)", middle, low, high)
}

// part is a variant of our scheme in the ablation.
type part struct {
	text, scheme string
	bySize       bool
}

var parts = []part{
	{"four-case", fourcase, false},
	{"+ queues by size", fourcase, true},
	{"+ queues by size, large flows with the parameters for a low-priority class", lowPriority, true},
	{"+ pre-credit", oneQueue, false},
	{"all", precredit, true},
}

// of finds the variant in the groups of one workload at one load.
func (p part) of(oneQueue, bySize []*experiment.Summary) *experiment.Summary {
	if p.bySize {
		return find(bySize, p.scheme)
	}
	return find(oneQueue, p.scheme)
}

// pair has the scenarios of one workload at one load, with one data queue and with several.
type pair struct{ oneQueue, bySize []*experiment.Summary }

func (p pair) load() string { return loadOf(p.oneQueue[0].Scenario) }

// pairs finds the scenarios that differ in the data queues alone.
func pairs(oneQueue, bySize [][]*experiment.Summary) (all []pair) {
	for _, a := range oneQueue {
		for _, b := range bySize {
			if loadOf(a[0].Scenario) == loadOf(b[0].Scenario) {
				all = append(all, pair{a, b})
			}
		}
	}
	return all
}

// ablation tables what each part brings: the share of messages up to one BDP that lost no
// round trip, and slowdowns of the bucket with a given end and of the largest messages.
func ablation(all []pair) experiment.Table {
	t := experiment.Table{Header: []string{"workload", "what it has", "up to one BDP: lost no round trip", "up to one BDP: p99", "to 1MB: p50", "to 1MB: p99", "largest: p50", "largest: p99"}}
	for _, pair := range all {
		for _, p := range parts {
			s := p.of(pair.oneQueue, pair.bySize)
			if s == nil {
				continue
			}
			buckets := s.Scenario.Measure.Buckets
			last := len(buckets) - 1
			row := []string{pair.load(), p.text, oneRTT(s).String(), worstSmall(s)}
			for _, i := range []int{slices.Index(buckets, scenario.Size(1_000_000)), last} {
				for _, q := range []int{50, 99} {
					row = append(row, slowdownText(s, i, q))
				}
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

func slowdownText(s *experiment.Summary, bucket, p int) string {
	if bucket < 0 || math.IsNaN(s.Slowdown(bucket, p)) {
		return "-"
	}
	return fmt.Sprintf("%.2f", s.Slowdown(bucket, p))
}

// worstSmall is the largest 99th percentile of the buckets up to one BDP.
func worstSmall(s *experiment.Summary) string {
	worst := math.NaN()
	for i, b := range s.Results[0].Buckets {
		if v := s.Slowdown(i, 99); b.Bytes != 0 && b.Bytes <= s.Results[0].BDPBytes && (math.IsNaN(worst) || v > worst) {
			worst = v
		}
	}
	if math.IsNaN(worst) {
		return "-"
	}
	return fmt.Sprintf("%.2f", worst)
}

// fast counts messages up to one BDP, and those of them that lost no round trip.
type fast struct{ lostNone, all float64 }

func (f fast) String() string {
	if f.all == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %% of %.0f", 100*f.lostNone/f.all, f.all)
}

// oneRTT counts over all seeds.
func oneRTT(s *experiment.Summary) (f fast) {
	for _, r := range s.Results {
		for _, b := range r.Buckets {
			if b.Bytes != 0 && b.Bytes <= r.BDPBytes {
				f.lostNone += b.OneRTT * float64(b.Count)
				f.all += float64(b.Count)
			}
		}
	}
	return f
}

// oneRTTOf counts over all workloads and loads.
func oneRTTOf(all []pair, p part) (f fast) {
	for _, pair := range all {
		if s := p.of(pair.oneQueue, pair.bySize); s != nil {
			n := oneRTT(s)
			f.lostNone += n.lostNone
			f.all += n.all
		}
	}
	return f
}

// Cost compares completion times with pre-credit and without, where nothing else differs.
type Cost struct {
	Queues        string
	Cases         int
	Worse, Better int      // cases that differ by more than costFactor
	Worst         string   // largest one of Lost
	Lost          []string // the cases in which it is worse
	worst         float64
}

// costFactor: smaller differences of medians over the seeds do not count.
const costFactor = 1.05

// Messages to which pre-credit gives no round trip, but which share links with those that have
// it: by the upper ends of buckets.
const costFrom, costTo = 150_000, 10_000_000

func costs(all []pair) []Cost {
	oneQueue, bySize := Cost{Queues: "one data queue"}, Cost{Queues: "queues by size"}
	for _, p := range all {
		oneQueue.add(find(p.oneQueue, parts[3].scheme), find(p.oneQueue, parts[0].scheme))
		bySize.add(find(p.bySize, parts[4].scheme), find(p.bySize, parts[2].scheme))
	}
	return []Cost{oneQueue, bySize}
}

func (c *Cost) add(with, without *experiment.Summary) {
	if with == nil || without == nil {
		return
	}
	for i, b := range with.Results[0].Buckets {
		if b.Bytes <= costFrom || b.Bytes > costTo {
			continue
		}
		for _, p := range []int{50, 99} {
			c.compare(with, without, i, p)
		}
	}
}

func (c *Cost) compare(with, without *experiment.Summary, i, p int) {
	a, b := with.Slowdown(i, p), without.Slowdown(i, p)
	if math.IsNaN(a) || math.IsNaN(b) {
		return
	}
	c.Cases++
	switch {
	case a*costFactor < b:
		c.Better++
	case a > b*costFactor:
		c.Worse++
		text := fmt.Sprintf("%s, %s, percentile %d: %.2f with pre-credit, %.2f without (+%.0f %%)",
			loadOf(with.Scenario), experiment.BucketName(with.Results[0].Buckets[i].Bytes), p, a, b, 100*(a/b-1))
		c.Lost = append(c.Lost, text)
		if a/b > c.worst {
			c.worst, c.Worst = a/b, text
		}
	}
}
