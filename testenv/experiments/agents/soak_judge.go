// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"fmt"
	"slices"
)

// Memory of an agent is judged over the periods by medians: that of the last third of the periods must not exceed the
// ninth tenth of the first third by more than a collector explains. The first period is left out, in which pools and caches
// grow to what the events need. Tenths are in place of the least and the largest, because one period would else decide.
//
// The resident memory between two collections has what is in use and garbage. With GOGC=100 a collection begins when the
// garbage is as much as what is in use and the stacks, but not before the heap has 4 MiB. So two readings without a leak
// differ by the larger of both at most, if in use is the same. Memory that the runtime keeps for later is at most a tenth
// of the heap more (runtime/mgcscavenge.go), for which gcShare is 1.1.
//
// What a collection has found in use has no garbage, but it depends on when the collection was: between no connection and
// all connections of a period. The range of the first third, from the first to the ninth tenth, shows that. A median leaves
// this range by as much as the range itself only if the memory grows. heapGrain is for series that are flat: a few size
// classes of the runtime.
//
// Mappings that the census names (of memfds and BPF maps) are compared at each rest. All others are those of the files and
// of the runtime, which divides and joins its own when it returns memory. mappingGrain is for a heap that takes a further
// arena: the arena, and its parts of the tables of package runtime.
const (
	warmUp       = 1       // periods that are left out
	enough       = 6       // periods that are needed behind them
	minHeap      = 4 << 10 // KiB at which the first collection begins
	gcShare      = 1.1
	heapGrain    = 512 // KiB
	mappingGrain = 8
	thirds       = 3
)

// growth is a figure over the periods.
type growth struct {
	what        string // figure with its unit
	first, last int    // medians of the thirds
	limit       int    // limit of the last value
}

// growthOf judges a series. explained is by how much two readings differ without a leak.
func growthOf(what string, series []int, explained int) growth {
	n := len(series) / thirds
	first, last := series[:n], series[len(series)-n:]
	_, high := outerTenths(first)
	return growth{what, medianInt(first), medianInt(last), high + explained}
}

// varying judges a series whose readings differ by the range of the first third, or by a grain.
func varying(what string, series []int, grain int) growth {
	low, high := outerTenths(series[:len(series)/thirds])
	return growthOf(what, series, max(grain, high-low))
}

func medianInt(v []int) int {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// outerTenths returns the first and the ninth tenth: of less than ten figures, the least and the largest.
func outerTenths(v []int) (low, high int) {
	v = slices.Sorted(slices.Values(v))
	tenth := len(v) / 10
	return v[tenth], v[len(v)-1-tenth]
}

// memoryOf returns how the figures of the agent of a host have grown; none for too few periods.
func memoryOf(periods []SoakPeriod, host int) []growth {
	var resident, heap, mappings []int
	for i := range periods {
		if i >= warmUp && host < len(periods[i].Agents) {
			c := &periods[i].Agents[host]
			resident, heap, mappings = append(resident, c.Anon), append(heap, c.Heap), append(mappings, c.Mappings)
		}
	}
	if len(heap) < enough {
		return nil
	}
	inUse := medianInt(heap[:len(heap)/thirds])
	return []growth{
		varying("KiB of heap", heap, heapGrain),
		varying("mappings", mappings, mappingGrain),
		growthOf("KiB of resident memory", resident, int(gcShare*float64(max(minHeap, inUse)))),
	}
}

// judgeMemory returns how the memory of agents has grown beyond its limit.
func judgeMemory(periods []SoakPeriod) (problems []string) {
	if len(periods) == 0 {
		return nil
	}
	for host := range periods[0].Agents {
		for _, g := range memoryOf(periods, host) {
			if g.last > g.limit {
				problems = append(problems, fmt.Sprintf("host %d: the agent had %d and has %d %s, limit %d (medians of the first and last third)",
					host+1, g.first, g.last, g.what, g.limit))
			}
		}
	}
	return problems
}
