// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/internal/chart"
)

// WriteText writes the figures as a table, the decisions, and the verdict.
func (r *Result) WriteText(w io.Writer) error {
	t := chart.Table{
		Title:  "One sender, two receivers (S1.9)",
		Header: []string{"phase", "receiver", "bottleneck", "passed", "full", "queue mean", "queue p99", "drops", "tx time", "rx time"},
	}
	for _, p := range r.Phases {
		for i, f := range p.Dest {
			t.Rows = append(t.Rows, []string{
				p.Name, names[i],
				fmt.Sprintf("%.0f Mbit/s", float64(f.RateBPS)/1e6), fmt.Sprintf("%.1f Mbit/s", f.PassedBPS/1e6),
				fmt.Sprintf("%.1f %%", 100*f.Fill),
				fmt.Sprintf("%.1f kB", f.QueueMean/1e3), fmt.Sprintf("%.1f kB", f.QueueP99/1e3),
				fmt.Sprint(f.Drops), measured(f.TxMean), measured(f.RxMean),
			})
		}
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	var b strings.Builder
	for i, name := range names {
		fmt.Fprintf(&b, "Table readings of receiver %s by S1.6 case:", name)
		if len(r.Decided[i]) == 0 {
			b.WriteString(" none")
		}
		for _, c := range slices.Sorted(maps.Keys(r.Decided[i])) {
			fmt.Fprintf(&b, "  %s: %d", caseName(c), r.Decided[i][c])
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "Slowing A by %d changed B's rate by %+.2f %%.\n", r.Config.SlowBy, 100*r.OtherChange())
	if failures := r.Failures(); len(failures) > 0 {
		fmt.Fprintf(&b, "Missed:\n  %s\n", strings.Join(failures, "\n  "))
	} else {
		b.WriteString("All limits met.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func caseName(c int) string {
	if c == 0 {
		return "none"
	}
	return fmt.Sprintf("case %d", c)
}

func measured(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f ms", float64(d)/1e6)
}

// rateBin is over how long the plotted rate is averaged.
const rateBin = 50 * time.Millisecond

// WriteSVG draws rate, the policy's rate, queue and times over time.
func (r *Result) WriteSVG(w io.Writer) error {
	rates := chart.Panel{Title: "Rate through each bottleneck", Unit: "Mbit/s"}
	queues := chart.Panel{Title: "Queue at each bottleneck", Unit: "kB, logarithmic", LogFrom: 1}
	times := chart.Panel{Title: "Destination table: transmit and receive time (S1.4)", Unit: "ms, logarithmic", LogFrom: .01}
	// What the policy asks for at the start is the link's rate: cut off, or the
	// rest of the figure would lie flat at the bottom.
	top := 1.25 * float64(max(r.Config.RateA, r.Config.RateB))
	for i, name := range names {
		line := func(what string, style int, pts []chart.Point) chart.Series {
			return chart.Series{Name: name + what, Points: pts, Style: style}
		}
		rates.Lines = append(rates.Lines,
			line(": at its bottleneck", i, r.rate(i)),
			line(": rate of the policy", 2+i, r.rows(i, func(row *IsolationRow) float64 { return min(float64(row.RateBPS), top) / 1e6 })))
		queues.Lines = append(queues.Lines, line(": at its bottleneck", i, r.queue(i)))
		times.Lines = append(times.Lines,
			line(": transmit time", 4+i, r.rows(i, func(row *IsolationRow) float64 { return float64(row.TxNS) / 1e6 })),
			line(": receive time", 6+i, r.rows(i, func(row *IsolationRow) float64 { return float64(row.RxNS) / 1e6 })))
	}
	f := chart.Figure{
		Title:  fmt.Sprintf("One sender, receiver A behind %d and receiver B behind %d Mbit/s", r.Config.RateA/1e6, r.Config.RateB/1e6),
		Note:   "Lines are means over short times, areas reach from the least to the greatest value.",
		Panels: []chart.Panel{rates, queues, times},
		Marks: []chart.Mark{
			{At: r.Phases[1].From - r.Config.Warmup, Text: "attached"},
			{At: r.Slowed, Text: fmt.Sprintf("A slowed to %d Mbit/s", r.Config.RateA/r.Config.SlowBy/1e6)},
		},
	}
	return f.WriteSVG(w)
}

func (r *Result) rate(dest int) (pts []chart.Point) {
	last := 0
	for i, s := range r.Samples {
		span := s.At - r.Samples[last].At
		if span < rateBin {
			continue
		}
		bits := float64(s.Queue[dest].Sent-r.Samples[last].Queue[dest].Sent) * 8
		pts = append(pts, chart.Point{At: s.At, Value: bits / span.Seconds() / 1e6})
		last = i
	}
	return pts
}

func (r *Result) queue(dest int) (pts []chart.Point) {
	for _, s := range r.Samples {
		pts = append(pts, chart.Point{At: s.At, Value: float64(s.Queue[dest].Backlog) / 1e3})
	}
	return pts
}

func (r *Result) rows(dest int, value func(*IsolationRow) float64) (pts []chart.Point) {
	for _, s := range r.Samples {
		if row := s.Rows[dest]; row != nil {
			pts = append(pts, chart.Point{At: s.At, Value: value(row)})
		}
	}
	return pts
}
