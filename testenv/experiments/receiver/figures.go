// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/chart"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A run has two halves: the first without the policy at the server, the second with it.
const (
	warm    = 3 * time.Second // until streams have found their rates
	measure = 4 * time.Second
	slice   = 250 * time.Millisecond
)

// frame is what 4096 bytes of payload are on the wire, as rates count them; with the stamp the link
// carries 40 bytes more.
const (
	payload = 4096
	frame   = 14 + 20 + 8 + 12 + payload + 4
	stamped = frame + 40
)

// run is what was measured in one run of a scenario, in bit/s of frames.
type run struct {
	off, on map[string][3]float64 // by direction, for each node
	points  map[string][3][]chart.Point
	dropped uint64 // packets of the node that ignores limits
}

const half = warm + measure

// directions of a scenario's streams.
func (s *scenario) directions() []string {
	switch s.Name {
	case "mixed":
		return []string{"WRITE", "READ"}
	case "READ":
		return []string{"READ"}
	}
	return []string{"WRITE"}
}

// play makes one run.
func (s *scenario) play(t testing.TB) run {
	l := newLab(t)
	l.priority(0, "off")
	if s.ignores {
		l.priority(3, "off")
	}
	flows := map[string][]*flow{}
	for _, d := range s.directions() {
		op := verbs.OpWrite
		if d == "READ" {
			op = verbs.OpRead
		}
		for n := 1; n <= 3; n++ {
			flows[d] = append(flows[d], l.start(n, op))
		}
	}
	r := run{off: map[string][3]float64{}, on: map[string][3]float64{}, points: map[string][3][]chart.Point{}}
	begin := time.Now()
	last, at := map[string][3]uint64{}, begin
	sums, took := [2]map[string][3]float64{{}, {}}, [2]float64{}
	on := false
	for time.Since(begin) < 2*half {
		time.Sleep(slice)
		now := time.Since(begin)
		if !on && now >= half {
			l.priority(0, "on")
			on = true
		}
		part := 0
		since := now
		if on {
			part, since = 1, now-half
		}
		seconds := time.Since(at).Seconds()
		at = time.Now()
		counted := since > warm+slice
		if counted {
			took[part] += seconds
		}
		for d, all := range flows {
			before, sum, points := last[d], sums[part][d], r.points[d]
			for i, f := range all {
				bytes := f.Completed.Load()
				bits := float64(bytes-before[i]) * 8 * frame / payload
				before[i] = bytes
				points[i] = append(points[i], chart.Point{At: now, Value: bits / seconds / 1e6})
				if counted {
					sum[i] += bits
				}
			}
			last[d], sums[part][d], r.points[d] = before, sum, points
		}
	}
	for part, to := range []map[string][3]float64{r.off, r.on} {
		for d, sum := range sums[part] {
			for i := range sum {
				sum[i] /= took[part]
			}
			to[d] = sum
		}
	}
	x, err := l.server.Limits()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range x.Dropped {
		r.dropped += c.DroppedPackets
	}
	for _, all := range flows {
		l.end(all...)
	}
	return r
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// medians of runs: of each node, and of the sum.
func medians(runs []run, d string, of func(*run) map[string][3]float64) (each [3]float64, sum float64) {
	var sums []float64
	for i := range each {
		var values []float64
		for j := range runs {
			values = append(values, of(&runs[j])[d][i])
		}
		each[i] = median(values)
	}
	for j := range runs {
		v := of(&runs[j])[d]
		sums = append(sums, v[0]+v[1]+v[2])
	}
	return each, median(sums)
}

// table writes the rows of a scenario in Markdown, in Mbit/s.
func (s *scenario) table(w io.Writer, runs []run) {
	for _, d := range s.directions() {
		name := s.Name
		if len(s.directions()) > 1 {
			name += ", " + d
		}
		off, _ := medians(runs, d, func(r *run) map[string][3]float64 { return r.off })
		on, onSum := medians(runs, d, func(r *run) map[string][3]float64 { return r.on })
		var dropped []float64
		for i := range runs {
			dropped = append(dropped, float64(runs[i].dropped))
		}
		fmt.Fprintf(w, "| %s | %.1f, %.1f, %.1f | %.1f | %.1f | %.1f | %.2f | %.0f | %s |\n", name, off[0]/1e6, off[1]/1e6, off[2]/1e6,
			on[0]/1e6, on[1]/1e6, on[2]/1e6, onSum*stamped/frame/linkBps, median(dropped), verdict(on, onSum))
	}
}

// verdict compares medians with the goals of S4.5.
func verdict(each [3]float64, sum float64) string {
	var missed []string
	for i, n := range nodes {
		if each[i] < .95*float64(n.min) {
			missed = append(missed, fmt.Sprintf("minimum of level %d", n.level))
		}
	}
	if each[0] < .95*float64(nodes[0].max) {
		missed = append(missed, "maximum of level 1")
	}
	if sum*stamped/frame < .95*linkBps {
		missed = append(missed, "sum")
	}
	if len(missed) == 0 {
		return "all met"
	}
	return "missed: " + strings.Join(missed, ", ")
}

// figure is the picture of the first run of each scenario.
func figure(all map[string][]run) *chart.Figure {
	f := &chart.Figure{
		Title: "A server with a link of 100 Mbit/s and three nodes", Note: "Mbit/s of each node; from the mark on, the server divides its link by priority",
		Columns: 2, Marks: []chart.Mark{{At: half, Text: "priority on"}},
	}
	for _, s := range scenarios {
		for _, d := range s.directions() {
			title := s.Name
			if len(s.directions()) > 1 {
				title += ", " + d
			}
			p := chart.Panel{Title: title, Unit: "Mbit/s"}
			for i, points := range all[s.Name][0].points[d] {
				p.Lines = append(p.Lines, chart.Series{Name: fmt.Sprintf("level %d", i+1), Points: points, Style: i})
			}
			f.Panels = append(f.Panels, p)
		}
	}
	return f
}
