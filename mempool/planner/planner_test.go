// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/planner"
)

const slab = 64 << 10

// A node that is not known gets nothing, and a new one what it asks for. A pool that is too small is shared
// equally, and nobody gets more than it needs.
func TestPlan(t *testing.T) {
	p := planner.New()
	list := []lease.Need{{Node: 1}, {Node: 2}, {Node: 3}, {Node: 4}}
	p.Observe(1, lease.Usage{Demand: 10 * slab})
	p.Observe(2, lease.Usage{Demand: 3*slab - 5000})
	p.Observe(3, lease.Usage{})
	for _, c := range []struct {
		slabs int
		want  []int
	}{{100, []int{10, 3, 0, 0}}, {13, []int{10, 3, 0, 0}}, {8, []int{5, 3, 0, 0}}, {4, []int{2, 2, 0, 0}}, {0, []int{0, 0, 0, 0}}} {
		if got := p.Plan(c.slabs, slab, list); !slices.Equal(got, c.want) {
			t.Errorf("%d slabs: %v, want %v", c.slabs, got, c.want)
		}
	}
	if x := p.Prediction(1); x.Need != 10*slab || x.Periods != 1 || x.By == "" {
		t.Errorf("%+v", x)
	}
	p.Forget(1)
	if got := p.Plan(100, slab, list); !slices.Equal(got, []int{0, 3, 0, 0}) || p.Prediction(1) != (lease.Prediction{}) {
		t.Errorf("a forgotten node: %v, %+v", got, p.Prediction(1))
	}
}

// Over many periods the networks decide most of the predictions, most needs are met, the plan follows the
// demand of each node, and never exceeds the pool.
func TestPlanFollowsDemand(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := planner.New()
	const periods, slabs = 400, 400
	nodes := []lease.NodeID{1, 2, 3}
	met, sum := 0, [3]int{}
	plan := []int{0, 0, 0}
	for period := range periods {
		var list []lease.Need
		for i, id := range nodes {
			// Node 1 alternates slowly, node 2 drifts, node 3 is constant; all with noise.
			base := []int{60 + 40*(period/50%2), 20 + period/4, 30}[i]
			demand := uint64(base*slab + rng.IntN(4*slab))
			leased := uint64(plan[i]) * slab
			u := lease.Usage{Demand: demand, Leased: leased, Used: min(demand, leased)}
			if period > 0 && leased >= demand {
				met++
			}
			p.Observe(id, u)
			list = append(list, lease.Need{Node: id, Usage: u})
		}
		plan = p.Plan(slabs, slab, list)
		total := 0
		for i, n := range plan {
			total += n
			sum[i] += n
		}
		if total > slabs {
			t.Fatalf("period %d: %v of %d slabs", period, plan, slabs)
		}
	}
	byNetwork, all := uint64(0), uint64(0)
	for _, id := range nodes {
		x := p.Prediction(id)
		byNetwork, all = byNetwork+x.ByNetwork, all+x.Periods
	}
	t.Logf("%d of %d needs met, means %v slabs, %d of %d predictions by the networks", met, 3*(periods-1), sum, byNetwork, all)
	if met < 3*(periods-1)*3/4 {
		t.Errorf("only %d of %d needs were met", met, 3*(periods-1))
	}
	if byNetwork < all/2 {
		t.Errorf("only %d of %d predictions are those of the networks", byNetwork, all)
	}
	for i, want := range []int{80, 70, 30} { // mean demands
		if mean := sum[i] / periods; mean < want || mean > want*5/4 {
			t.Errorf("node %d has %d slabs in the mean, and needs about %d", i+1, mean, want)
		}
	}
}

// The predictor of a server divides a pool of 10 slabs.
func Example() {
	p := planner.New()
	p.Observe(1, lease.Usage{Demand: 8 * slab})
	p.Observe(2, lease.Usage{Demand: 4 * slab})
	fmt.Println(p.Plan(10, slab, []lease.Need{{Node: 1}, {Node: 2}}))
	// Output:
	// [6 4]
}
