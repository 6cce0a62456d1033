// SPDX-License-Identifier: Apache-2.0

//go:build timing

package rates

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
	warm            = 3 * time.Second // until streams have found their rates
	receiverMeasure = 4 * time.Second
	slice           = 250 * time.Millisecond
)

// frame is what 4096 bytes of payload are on the wire, as rates count them; with the stamp the link
// carries 40 bytes more.
const (
	payload = 4096
	frame   = 14 + 20 + 8 + 12 + payload + 4
	stamped = frame + 40
)

// receiverScenario is who does what.
type receiverScenario struct {
	Name    string
	ops     [3]verbs.Op // operation of each node
	ignores bool        // the third node does not obey limits
}

var scenarios = []receiverScenario{
	{"WRITE", [3]verbs.Op{verbs.OpWrite, verbs.OpWrite, verbs.OpWrite}, false},
	{"READ", [3]verbs.Op{verbs.OpRead, verbs.OpRead, verbs.OpRead}, false},
	{"mixed", [3]verbs.Op{verbs.OpWrite, verbs.OpWrite, verbs.OpWrite}, false}, // and each of them reads
	{"one ignores limits", [3]verbs.Op{verbs.OpWrite, verbs.OpWrite, verbs.OpWrite}, true},
}

// runReceiver is what was measured in one run of a scenario, in bit/s of frames.
type runReceiver struct {
	off, on map[string][3]float64 // rates by direction, for each node
	points  map[string][3][]chart.Point
	dropped uint64 // packets of the node that ignores limits
}

const half = warm + receiverMeasure

// directions of a scenario's streams.
func (s *receiverScenario) directions() []string {
	switch s.Name {
	case "mixed":
		return []string{"WRITE", "READ"}
	case "READ":
		return []string{"READ"}
	}
	return []string{"WRITE"}
}

// play makes one run.
func (s *receiverScenario) play(t testing.TB) runReceiver {
	l := newReceiverLab(t)
	l.priority(0, "off")
	if s.ignores {
		l.priority(3, "off")
	}
	m := meter{flows: map[string][]*receiverFlow{}, last: map[string][3]uint64{}, points: map[string][3][]chart.Point{}}
	for _, d := range s.directions() {
		op := verbs.OpWrite
		if d == "READ" {
			op = verbs.OpRead
		}
		for n := 1; n <= 3; n++ {
			m.flows[d] = append(m.flows[d], l.start(n, op))
		}
	}
	m.begin = time.Now()
	m.at = m.begin
	off := m.measure()
	l.priority(0, "on")
	r := runReceiver{off: off, on: m.measure(), points: m.points}
	x, err := l.server.Limits()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range x.Dropped {
		r.dropped += c.DroppedPackets
	}
	for _, all := range m.flows {
		l.end(all...)
	}
	return r
}

// meter measures streams in slices of time.
type meter struct {
	flows     map[string][]*receiverFlow // flows by direction, for each node
	begin, at time.Time                  // beginning of the run, and time of the present slice
	last      map[string][3]uint64
	points    map[string][3][]chart.Point
}

// receiverMeasure measures half a run, and returns the rates after the streams have found theirs.
func (m *meter) measure() map[string][3]float64 {
	start, took, rates := time.Now(), 0.0, map[string][3]float64{}
	for time.Since(start) < half {
		time.Sleep(slice)
		seconds := time.Since(m.at).Seconds()
		m.at = time.Now()
		counted := time.Since(start) > warm+slice
		if counted {
			took += seconds
		}
		for d := range m.flows {
			bits, sum := m.step(d, seconds), rates[d]
			for i := range bits {
				if counted {
					sum[i] += bits[i]
				}
			}
			rates[d] = sum
		}
	}
	for d, sum := range rates {
		for i := range sum {
			sum[i] /= took
		}
		rates[d] = sum
	}
	return rates
}

// step returns what the streams of a direction carried in a slice, in bits of frames.
func (m *meter) step(d string, seconds float64) (bits [3]float64) {
	last, points := m.last[d], m.points[d]
	for i, f := range m.flows[d] {
		bytes := f.Completed.Load()
		bits[i] = float64(bytes-last[i]) * 8 * frame / payload
		last[i] = bytes
		points[i] = append(points[i], chart.Point{At: m.at.Sub(m.begin), Value: bits[i] / seconds / 1e6})
	}
	m.last[d], m.points[d] = last, points
	return bits
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// medians of runs: of each node, and of the sum.
func medians(runs []runReceiver, d string, of func(*runReceiver) map[string][3]float64) (each [3]float64, sum float64) {
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
func (s *receiverScenario) table(w io.Writer, runs []runReceiver) {
	for _, d := range s.directions() {
		name := s.Name
		if len(s.directions()) > 1 {
			name += ", " + d
		}
		off, _ := medians(runs, d, func(r *runReceiver) map[string][3]float64 { return r.off })
		on, onSum := medians(runs, d, func(r *runReceiver) map[string][3]float64 { return r.on })
		var dropped []float64
		for i := range runs {
			dropped = append(dropped, float64(runs[i].dropped))
		}
		fmt.Fprintf(w, "| %s | %.1f, %.1f, %.1f | %.1f | %.1f | %.1f | %.2f | %.0f | %s |\n", name, off[0]/1e6, off[1]/1e6, off[2]/1e6,
			on[0]/1e6, on[1]/1e6, on[2]/1e6, onSum*stamped/frame/receiverLinkBps, median(dropped), verdict(on, onSum))
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
	if sum*stamped/frame < .95*receiverLinkBps {
		missed = append(missed, "sum")
	}
	if len(missed) == 0 {
		return "all met"
	}
	return "missed: " + strings.Join(missed, ", ")
}

// figure is the picture of the first run of each scenario.
func figure(all map[string][]runReceiver) *chart.Figure {
	f := &chart.Figure{
		Title: "A server with a link of 100 Mbit/s and three nodes", Note: "Mbit/s of each node; from the mark on, the server divides its link by priority",
		Columns: 2, Marks: []chart.Mark{{At: half, Text: "priority on"}},
	}
	for _, s := range scenarios {
		if len(all[s.Name]) == 0 {
			continue
		}
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
