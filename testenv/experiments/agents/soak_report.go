// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// writeHeader writes what the lines of the periods mean.
func (s *soak) writeHeader() {
	s.Line(fmt.Sprintf("# soak of %v, periods of %v, %d hosts, seed %d", s.Duration, s.Period, s.Hosts, s.Seed))
	s.Line("# a line for each period: figures of its clients, then of each agent at rest: resident memory (RssAnon) and heap in KiB,")
	s.Line("# descriptors, goroutines, mappings, entries of BPF maps; then the events of the period")
}

// writePeriod writes the line of a period.
func (s *soak) writePeriod(p *SoakPeriod) {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %v visits=%d connections=%d operations=%d MB=%.1f datagrams=%d failures=%d opened=%d",
		p.Number, p.Elapsed.Round(time.Second), p.Done.Visits, p.Done.Connections, p.Done.Operations,
		float64(p.Done.Bytes)/1e6, p.Done.Datagrams, p.Done.Failures, p.Done.Opened)
	for i := range p.Agents {
		c := &p.Agents[i]
		fmt.Fprintf(&b, " | h%d rss=%d heap=%d fds=%d goroutines=%d mappings=%d entries=%d",
			i+1, c.Anon, c.Heap, c.Descriptors, c.Goroutines, c.Mappings, c.entries())
	}
	b.WriteString(" |")
	for _, name := range slices.Sorted(maps.Keys(p.Events)) {
		fmt.Fprintf(&b, " %s=%d", name, p.Events[name])
	}
	s.Line(b.String())
}

// writeVerdict writes the worst figures and whether the soak has passed.
func (s *soak) writeVerdict() {
	periods := s.result.Periods
	sum := SoakProgress{Causes: map[string]uint64{}}
	for i := range periods {
		d := &periods[i].Done
		sum.Visits += d.Visits
		sum.Connections += d.Connections
		sum.Operations += d.Operations
		sum.Bytes += d.Bytes
		sum.Failures += d.Failures
		sum.addTraffic(d.Traffic)
		for cause, n := range d.Causes {
			sum.Causes[cause] += n
		}
	}
	s.Line(fmt.Sprintf("# %d periods: %d visits, %d connections, %d operations, %.1f MB, %d visits ended by faults",
		len(periods), sum.Visits, sum.Connections, sum.Operations, float64(sum.Bytes)/1e6, sum.Failures))
	for _, kind := range slices.Sorted(maps.Keys(sum.Traffic)) {
		s.Line(fmt.Sprintf("# %6d, and %d failed: %s", sum.Traffic[kind].Succeeded, sum.Traffic[kind].Failed, kind))
	}
	for _, cause := range slices.Sorted(maps.Keys(sum.Causes)) {
		s.Line(fmt.Sprintf("# %6d: %s", sum.Causes[cause], cause))
	}
	for host := range s.Hosts {
		s.writeWorst(host)
	}
	for _, p := range s.result.Problems {
		first, _, _ := strings.Cut(p, "\n")
		s.Line("# problem: " + first)
	}
	verdict := "passed"
	if len(s.result.Problems) > 0 {
		verdict = fmt.Sprintf("FAILED: %d problems", len(s.result.Problems))
	}
	if s.result.Interrupted {
		verdict += " (interrupted)"
	}
	s.Line("# verdict: " + verdict)
}

// writeWorst writes the largest figures of the agent of a host at rest, and how its memory has grown.
func (s *soak) writeWorst(host int) {
	var worst Census
	entries := 0
	for i := range s.result.Periods {
		if agents := s.result.Periods[i].Agents; host < len(agents) {
			c := &agents[host]
			worst.Anon, worst.Heap, worst.Descriptors = max(worst.Anon, c.Anon), max(worst.Heap, c.Heap), max(worst.Descriptors, c.Descriptors)
			worst.Goroutines, worst.Mappings, entries = max(worst.Goroutines, c.Goroutines), max(worst.Mappings, c.Mappings), max(entries, c.entries())
		}
	}
	text := fmt.Sprintf("# worst at rest: h%d rss=%d heap=%d fds=%d goroutines=%d mappings=%d entries=%d",
		host+1, worst.Anon, worst.Heap, worst.Descriptors, worst.Goroutines, worst.Mappings, entries)
	all := memoryOf(s.result.Periods, host)
	for _, g := range all {
		text += fmt.Sprintf("; %s: medians of first and last third %d and %d (limit %d)", g.what, g.first, g.last, g.limit)
	}
	if len(all) == 0 {
		text += fmt.Sprintf("; memory is judged from %d periods on", warmUp+enough)
	}
	s.Line(text)
}

// tail returns the last n lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
