// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"fmt"
	"math"
	"slices"

	"github.com/softroce/softroce-xdp/cc/sim"
	"github.com/softroce/softroce-xdp/cc/sim/scenario"
)

// message is one that completed.
type message struct {
	bytes    int64
	slowdown float64
	oneRTT   bool
}

// buckets groups messages by the ends of sizes; larger ones go to a bucket of
// their own, without an end.
func buckets(ends []scenario.Size, messages []message) []Bucket {
	groups := make([][]message, len(ends)+1)
	for _, m := range messages {
		i, _ := slices.BinarySearch(ends, scenario.Size(m.bytes))
		groups[i] = append(groups[i], m)
	}
	var all []Bucket
	for i, g := range groups {
		b := bucket(g)
		if i < len(ends) {
			b.Bytes = int64(ends[i])
		} else if len(g) == 0 {
			continue
		}
		all = append(all, b)
	}
	return all
}

func bucket(messages []message) Bucket {
	slowdowns := make([]float64, len(messages))
	fast := 0
	for i, m := range messages {
		slowdowns[i] = m.slowdown
		if m.oneRTT {
			fast++
		}
	}
	slices.Sort(slowdowns)
	b := Bucket{Count: len(messages)}
	if len(messages) > 0 {
		b.P50, b.P95, b.P99 = sim.Percentile(slowdowns, .5), sim.Percentile(slowdowns, .95), sim.Percentile(slowdowns, .99)
		b.OneRTT = float64(fast) / float64(len(messages))
	}
	return b
}

// BucketName writes a bucket's end: "to 10KB".
func BucketName(bytes int64) string {
	if bytes == 0 {
		return "larger"
	}
	return "to " + scenario.Size(bytes).String()
}

// Slowdowns tables percentile p (50, 95 or 99) of the slowdown by size, a row for
// each scheme, of the medians over the seeds.
func Slowdowns(all []*Summary, p int) Table {
	t := Table{Header: []string{"scheme"}}
	if len(all) == 0 {
		return t
	}
	for _, b := range all[0].Results[0].Buckets {
		t.Header = append(t.Header, BucketName(b.Bytes))
	}
	for _, s := range all {
		row := []string{s.Scheme}
		for i := range t.Header[1:] {
			row = append(row, slowdownText(s.Slowdown(i, p)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func slowdownText(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

// Slowdown is the median over the seeds of percentile p (50, 95 or 99) in bucket
// i; NaN if no seed had a message there.
func (s *Summary) Slowdown(i, p int) float64 {
	all := s.SlowdownsBySeed(i, p)
	if len(all) == 0 {
		return math.NaN()
	}
	return sim.Percentile(all, .5)
}

// SlowdownsBySeed is percentile p (50, 95 or 99) in bucket i of each seed that had a message
// there, sorted.
func (s *Summary) SlowdownsBySeed(i, p int) (all []float64) {
	for _, r := range s.Results {
		if i >= len(r.Buckets) || r.Buckets[i].Count == 0 {
			continue
		}
		b := r.Buckets[i]
		all = append(all, map[int]float64{50: b.P50, 95: b.P95, 99: b.P99}[p])
	}
	slices.Sort(all)
	return all
}
