// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"fmt"
	"os"
	"strings"
)

// Held is what a process holds.
type Held struct {
	RSS         int `json:"rss_kib"`      // VmRSS
	Anon        int `json:"rss_anon_kib"` // RssAnon: without files and memory that processes share
	Descriptors int `json:"descriptors"`
	Goroutines  int `json:"goroutines"`
}

// heldBy reads what /proc has of a process: all but the goroutines.
func heldBy(pid int) (h Held, err error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return h, err
	}
	h.Descriptors = len(entries)
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return h, err
	}
	for line := range strings.Lines(string(b)) {
		for name, to := range map[string]*int{"VmRSS:": &h.RSS, "RssAnon:": &h.Anon} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				if _, err := fmt.Sscan(rest, to); err != nil {
					return h, fmt.Errorf("process %d: %s %w", pid, line, err)
				}
			}
		}
	}
	return h, nil
}

// median is the median of each figure.
func median(all []Held) Held {
	of := func(figure func(Held) int) int {
		v := make([]int, len(all))
		for i, h := range all {
			v[i] = figure(h)
		}
		return medianInt(v)
	}
	return Held{
		of(func(h Held) int { return h.RSS }), of(func(h Held) int { return h.Anon }),
		of(func(h Held) int { return h.Descriptors }), of(func(h Held) int { return h.Goroutines }),
	}
}
