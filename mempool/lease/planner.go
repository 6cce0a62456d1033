// SPDX-License-Identifier: Apache-2.0

package lease

import "github.com/softroce/softroce-xdp/cc/priority"

// Need is a node among which a Planner divides a pool.
type Need struct {
	Node  NodeID
	Usage // usage of the last period
}

// Planner predicts what nodes need and divides the pool (S4.2). Calls do not overlap.
type Planner interface {
	// Observe takes what a node needed in a period.
	Observe(n NodeID, u Usage)

	// Forget drops what is known of a node.
	Forget(n NodeID)

	// Plan returns how many of the slabs each node gets, in the order of the list. The sum is at most
	// slabs.
	Plan(slabs int, slabBytes uint64, list []Need) []int

	// Prediction returns what is expected of a node, for Status.
	Prediction(n NodeID) Prediction
}

// Resumer is a Planner that keeps what it knows of nodes over a restart of the server.
type Resumer interface {
	// Resume takes a node that the table has restored, and what it needed in its last period. It is called
	// instead of Observe.
	Resume(n NodeID, u Usage)
}

// Prediction is what a Planner expects of a node.
type Prediction struct {
	By        string `json:"by"`         // the predictor that counts
	Need      uint64 `json:"need_bytes"` // predicted need of the next period
	Periods   uint64 `json:"periods"`    // number of predicted periods
	ByNetwork uint64 `json:"by_network"` // predictions by a neural network
}

// NewPlanner returns a simple Planner. It predicts the next value from the last one: a need grows at once,
// and shrinks by half of the difference in each period. The pool is divided max-min fairly, in two steps:
// first by the part of the demand that is used, then by the rest of the demand. So if the pool is short, a
// node that uses little gets less. The used part is the demand times the utilisation, which is the share of
// the lease that was accessed. A node without a lease counts as one that uses it all.
func NewPlanner() Planner { return &planner{needs: map[NodeID]need{}} }

// need is what a node is expected to need in the next period, in bytes. used is a part of demand.
type need struct{ demand, used, periods uint64 }

type planner struct{ needs map[NodeID]need }

func (p *planner) Observe(n NodeID, u Usage) {
	used := u.Demand
	if u.Used < u.Leased {
		used = uint64(float64(u.Demand) * (float64(u.Used) / float64(u.Leased)))
	}
	old := p.needs[n]
	p.needs[n] = need{follow(old.demand, u.Demand), follow(old.used, used), old.periods + 1}
}

func (p *planner) Prediction(n NodeID) Prediction {
	x := p.needs[n]
	return Prediction{By: "last", Need: x.demand, Periods: x.periods}
}

// follow returns value if it is larger than old, and the mean of both otherwise.
func follow(old, value uint64) uint64 {
	if value >= old {
		return value
	}
	return value + (old-value)/2
}

func (p *planner) Forget(n NodeID) { delete(p.needs, n) }

func (p *planner) Plan(slabs int, slabBytes uint64, list []Need) []int {
	used, rest := make([]uint64, len(list)), make([]uint64, len(list))
	for i, n := range list {
		u := p.needs[n.Node]
		used[i] = (u.used + slabBytes - 1) / slabBytes
		rest[i] = (u.demand+slabBytes-1)/slabBytes - used[i]
	}
	plan := make([]int, len(list))
	left := Share(uint64(max(slabs, 0)), used, plan)
	Share(left, rest, plan)
	return plan
}

// Share adds max-min fair parts of a capacity to plan, and returns what is left. What cannot be divided
// goes to the nodes that come first.
func Share(capacity uint64, wants []uint64, plan []int) (left uint64) {
	level := priority.Level(capacity, wants)
	for i, w := range wants {
		part := min(w, level)
		plan[i] += int(part)
		capacity -= part
	}
	for i, w := range wants {
		if capacity > 0 && w > level {
			plan[i]++
			capacity--
		}
	}
	return capacity
}
