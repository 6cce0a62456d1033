// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"fmt"
	"slices"
)

// Memory of an agent is judged over the periods by medians: that of the last third of the periods must not exceed that
// of the first third by more than a collector explains. The first period is left out, in which pools and caches grow to
// what the events need.
//
// The resident memory between two collections has what is in use and garbage. With GOGC=100 a collection begins when the
// garbage is as much as what is in use and the stacks, but not before the heap has 4 MiB. So two readings without a leak
// differ by the larger of both at most, if in use is the same. Memory that the runtime keeps for later is at most a tenth
// of the heap more (runtime/mgcscavenge.go), for which gcShare is 1.1.
//
// What a collection has found in use has no garbage, but it depends on when the collection was: between no connection and
// all connections of a period. The range of the first third shows that. A median leaves this range by as much as the
// range itself only if the memory grows. heapGrain is for series that are flat: a few size classes of the runtime.
const (
	warmUp    = 1       // periods that are left out
	enough    = 6       // periods that are needed behind them
	minHeap   = 4 << 10 // KiB at which the first collection begins
	gcShare   = 1.1
	heapGrain = 512 // KiB
	thirds    = 3
)

// growth is a figure over the periods.
type growth struct {
	first, last int // medians of the thirds
	limit       int // limit of the last value
}

// grows judges a series. explained is by how much two readings differ without a leak.
func grows(series []int, explained int) growth {
	n := len(series) / thirds
	first, last := series[:n], series[len(series)-n:]
	return growth{medianInt(first), medianInt(last), slices.Max(first) + explained}
}

func medianInt(v []int) int {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// memoryOf returns how resident memory and heap of the agent of a host have grown. ok is false for too few periods.
func memoryOf(periods []SoakPeriod, host int) (rss, heap growth, ok bool) {
	var r, h []int
	for i := range periods {
		if i >= warmUp && host < len(periods[i].Agents) {
			r, h = append(r, periods[i].Agents[host].Anon), append(h, periods[i].Agents[host].Heap)
		}
	}
	if len(r) < enough {
		return rss, heap, false
	}
	n := len(h) / thirds
	spread := slices.Max(h[:n]) - slices.Min(h[:n])
	rss = grows(r, int(gcShare*float64(max(minHeap, medianInt(h[:n])))))
	heap = grows(h, max(heapGrain, spread))
	return rss, heap, true
}

// judgeMemory returns how the memory of agents has grown beyond its limit.
func judgeMemory(periods []SoakPeriod) (problems []string) {
	if len(periods) == 0 {
		return nil
	}
	for host := range periods[0].Agents {
		rss, heap, ok := memoryOf(periods, host)
		if !ok {
			continue
		}
		for what, g := range map[string]growth{"resident memory": rss, "heap": heap} {
			if g.last > g.limit {
				problems = append(problems, fmt.Sprintf("host %d: the %s of the agent grew from %d to %d KiB, limit %d (medians of the first and last third)",
					host+1, what, g.first, g.last, g.limit))
			}
		}
	}
	slices.Sort(problems)
	return problems
}
