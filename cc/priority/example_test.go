// SPDX-License-Identifier: Apache-2.0

package priority_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/cc/priority"
)

// Minimums come first, then the levels from 1 down, each up to its maximum.
func ExampleAllocator_Allocate() {
	nodes := []priority.Node{
		{ID: 1, Level: 1, Max: 60, Demand: priority.All},
		{ID: 2, Level: 2, Min: 10, Max: priority.All, Demand: 25},
		{ID: 3, Level: 3, Min: 5, Max: priority.All, Demand: priority.All},
	}
	grants := make([]uint64, len(nodes))
	var a priority.Allocator
	outcome := a.Allocate(80, nodes, grants)
	fmt.Println(grants, "goes short: level", outcome.Level)
	// Output: [60 15 5] goes short: level 2
}

// Two destinations want 100 Mbit/s each of a link of 100 Mbit/s.
func ExampleSharer() {
	s := priority.NewSharer()
	one, two := priority.Key(netip.MustParseAddr("10.0.0.1").As16()), priority.Key(netip.MustParseAddr("10.0.0.2").As16())
	s.Define(priority.Node{ID: 1, Level: 1, Max: 70_000_000}, one)

	now := uint64(time.Second)
	for range 2 { // evaluations
		for _, key := range []priority.Key{one, two} {
			d := s.Destination(key, 2)
			most, floor := d.Bounds()
			rate := max(min(100_000_000, most), floor)
			s.Observe(d, &priority.Observation{Paced: true, RateBps: rate, AllowedBps: 100_000_000}, now)
			fmt.Println(netip.AddrFrom16(key).Unmap(), rate)
		}
		s.Share(100_000_000, now)
		now += uint64(10 * time.Millisecond)
	}
	// Output:
	// 10.0.0.1 70000000
	// 10.0.0.2 100000000
	// 10.0.0.1 70000000
	// 10.0.0.2 30000000
}
