// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/loader"
)

// Counter is one reason of the data plane (bpf/lib/reasons.h).
type Counter struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
	Delta uint64 `json:"delta,omitempty"` // growth since the snapshot before, with --watch
	Text  string `json:"text"`
}

// Stats are the counters of one interface at one moment.
type Stats struct {
	Interface string    `json:"interface"`
	Time      time.Time `json:"time"`
	Counters  []Counter `json:"counters"`

	delta bool
}

// StatsOf makes Stats of the loader's counters: those that are not zero, or all.
// before, if not nil, is an earlier snapshot with all counters.
func StatsOf(ifname string, in []loader.Stat, all bool, now time.Time, before []loader.Stat) *Stats {
	s := &Stats{Interface: ifname, Time: now, Counters: []Counter{}, delta: before != nil}
	for i, c := range in {
		if c.Count == 0 && !all {
			continue
		}
		x := Counter{Name: c.Name, Count: c.Count, Text: c.Text}
		if before != nil {
			x.Delta = c.Count - min(before[i].Count, c.Count)
		}
		s.Counters = append(s.Counters, x)
	}
	return s
}

// Write prints the counters for people.
func (s *Stats) Write(w io.Writer) {
	if len(s.Counters) == 0 {
		fmt.Fprintln(w, "no RoCEv2 packet seen yet (--all shows the counters at zero, too)")
		return
	}
	head := []string{"COUNTER", "COUNT", "DELTA", "MEANING"}
	if !s.delta {
		head = []string{"COUNTER", "COUNT", "MEANING"}
	}
	lines := [][]string{head}
	for _, c := range s.Counters {
		line := []string{c.Name, fmt.Sprint(c.Count)}
		if s.delta {
			line = append(line, fmt.Sprintf("+%d", c.Delta))
		}
		lines = append(lines, append(line, c.Text))
	}
	for _, l := range cli.Align(lines) {
		fmt.Fprintln(w, l)
	}
}

// ShowStats prints counters, as often as the flags say.
func ShowStats(o *cli.Output, cmd *cobra.Command, name string, all bool, read func() ([]loader.Stat, error)) error {
	var before []loader.Stat
	return o.Show(cmd, func() (any, func(io.Writer), error) {
		now, err := read()
		if err != nil {
			return nil, nil, err
		}
		s := StatsOf(name, now, all, time.Now(), before)
		if o.Watch {
			before = now
		}
		return s, s.Write, nil
	})
}
