// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"testing"

	"github.com/softroce/softroce-xdp/mempool/lease"
)

// A part of a page counts as a page, what a node used counts where its prediction is lower, and nothing is kept of a
// node that has left.
func TestSamplesAndClaims(t *testing.T) {
	const slab = 16 * pageBytes
	p := New()
	p.Observe(1, lease.Usage{Demand: 1, Leased: pageBytes + 1, Used: 2*pageBytes - 1})
	if s := p.samples[1][0]; s.Demand != 1 || s.Leased != 2 || s.Touched != 2 {
		t.Errorf("the sample is %+v", s)
	}
	p.Forget(1)
	if len(p.samples) != 0 || len(p.nodes) != 0 {
		t.Errorf("samples of %d and predictions for %d nodes, and the only one has left", len(p.samples), len(p.nodes))
	}

	n := p.node(2)
	n.periods, n.last = firstPeriods+1, lease.Usage{Demand: 10 * slab, Used: 8 * slab}
	if need := n.need(); need >= 8*slab {
		t.Fatalf("%d bytes are predicted: this shows nothing", need)
	}
	if plan := p.Plan(20, slab, []lease.Need{{Node: 2, Usage: n.last}}); plan[0] != 8 {
		t.Errorf("%d slabs, and 8 were used", plan[0])
	}
}
