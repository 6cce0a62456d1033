// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"slices"
	"strings"
	"testing"
)

// soakSeries makes periods in which one agent has this memory.
func soakSeries(rss, heap func(period int) int, n int) (periods []SoakPeriod) {
	for i := range n {
		periods = append(periods, SoakPeriod{Agents: []Census{{Held: Held{Anon: rss(i)}, Heap: heap(i)}}})
	}
	return periods
}

// Memory that swings is no growth, memory that grows in each period is, and a few periods are not judged.
func TestSoakJudgesMemory(t *testing.T) {
	swings := func(i int) int { return 40_000 + i%3*1500 }
	grows := func(step int) func(int) int { return func(i int) int { return 5000 + i*step } }
	once := func(of func(int) int, outlier int) func(int) int { // one period of the first third differs
		return func(i int) int {
			if i == 5 {
				return outlier
			}
			return of(i)
		}
	}
	for _, c := range []struct {
		name      string
		rss, heap func(int) int
		periods   int
		want      string // part of the problem, or empty
	}{
		{"flat", swings, grows(0), 30, ""},
		{"a heap that swings with the moment of the collection", swings, func(i int) int { return 5000 + i%2*900 }, 30, ""},
		{
			"the first period is larger and smaller",
			func(i int) int { return swings(i) + 1/(i+1)*90_000 }, func(i int) int { return 5000 - 1/(i+1)*3000 }, 30, "",
		},
		{"resident memory grows", func(i int) int { return 40_000 + i*500 }, grows(0), 30, "resident memory"},
		{"heap grows", swings, grows(60), 30, "heap"},
		{"one of 80 periods", once(swings, 90_000), once(grows(0), 20_000), 80, ""},
		{"heap grows after one large period", swings, once(grows(60), 20_000), 80, "KiB of heap"},
		{"heap grows after one small period", swings, once(grows(60), 100), 80, "KiB of heap"},
		{"resident memory grows after one large period", once(func(i int) int { return 40_000 + i*500 }, 90_000), grows(0), 80, "resident memory"},
		{"too few periods", grows(10_000), grows(10_000), warmUp + enough - 1, ""},
		{"as few as are judged", grows(10_000), grows(10_000), warmUp + enough, "heap"},
	} {
		got := strings.Join(judgeMemory(soakSeries(c.rss, c.heap, c.periods)), "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// The number of mappings may change by a few, and not grow.
func TestSoakJudgesMappings(t *testing.T) {
	for _, c := range []struct {
		name     string
		mappings func(period int) int
		want     []string
	}{
		{"a few more", func(i int) int { return 46 + i/4 }, nil},
		{
			"grows", func(i int) int { return 46 + i },
			[]string{"host 1: the agent had 51 and has 71 mappings, limit 63 (medians of the first and last third)"},
		},
	} {
		periods := soakSeries(func(int) int { return 40_000 }, func(int) int { return 5000 }, 30)
		for i := range periods {
			periods[i].Agents[0].Mappings = c.mappings(i)
		}
		if got := judgeMemory(periods); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A census that has more of anything than the first one is a problem that names it; one that has less is none.
func TestSoakJudgesCensus(t *testing.T) {
	first := func() *Census {
		return &Census{
			Held: Held{Descriptors: 90, Goroutines: 30}, Namespaces: 1, Pinned: 64,
			Kinds: map[string]int{"socket:[N]": 10, "anon_inode:bpf-map": 20}, Named: map[string]int{"memfd rings": 2},
			Entries: map[string]int{"cm_ids": 0, "dest_table": 3}, Files: []string{"/eth0.sock", "pin config"},
		}
	}
	for _, c := range []struct {
		name   string
		change func(*Census)
		want   []string
	}{
		{"the same", func(*Census) {}, nil},
		{"less", func(c *Census) { c.Descriptors, c.Goroutines, c.Kinds["socket:[N]"], c.Named = 80, 20, 9, nil }, nil},
		{"collector", func(c *Census) { c.Goroutines = 32 }, nil},
		{"destinations", func(c *Census) { c.Entries["dest_table"] = 12 }, nil},
		{"too many destinations", func(c *Census) { c.Entries["dest_table"] = 13 }, []string{"entries of the map dest_table: 13, before 12"}},
		{"goroutines", func(c *Census) { c.Goroutines = 33 }, []string{"goroutines: 33, before 32"}},
		{"descriptors", func(c *Census) { c.Descriptors = 91 }, []string{"descriptors: 91, before 90"}},
		{"a kind", func(c *Census) { c.Kinds["socket:[N]"]++ }, []string{"descriptors of socket:[N]: 11, before 10"}},
		{"a new kind", func(c *Census) { c.Kinds["pipe:[N]"]++ }, []string{"descriptors of pipe:[N]: 1, before 0"}},
		{"mappings", func(c *Census) { c.Named["memfd rings"]++ }, []string{"mappings of memfd rings: 3, before 2"}},
		{"entries", func(c *Census) { c.Entries["cm_ids"]++ }, []string{"entries of the map cm_ids: 1, before 0"}},
		{"pinned", func(c *Census) { c.Pinned++ }, []string{"KiB pinned: 65, before 64"}},
		{"namespaces", func(c *Census) { c.Namespaces++ }, []string{"network namespaces of threads: 2, before 1"}},
		{"processes", func(c *Census) { c.Processes, c.Connections = 1, 2 }, []string{"processes at the device: 1, before 0", "connections: 2, before 0"}},
		{"new file", func(c *Census) { c.Files = append(c.Files, "/x.sock") }, []string{"the file /x.sock is new"}},
		{"missing file", func(c *Census) { c.Files = c.Files[:1] }, []string{"the file pin config is missing"}},
	} {
		now := first()
		c.change(now)
		if got := now.more(first(), 2, 12); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
