// SPDX-License-Identifier: Apache-2.0

// Package priority shares the bandwidth of a link among nodes by their priority
// (S4.5): first the minimum of every node, then the rest from the highest level
// (L1) down, each node up to its maximum, until nothing is left.
//
// It is integer arithmetic without I/O, clock or allocation in the steady state, so
// that the agent, a simulator and a card give the same bits. Rates are bits per
// second, but any unit does.
package priority

// Levels of priority: 1 is the highest, Levels the lowest.
const Levels = 8

// All of what a node may get: as a Max it sets no bound, as a Demand it says that the
// node takes whatever it is given.
const All = 1<<64 - 1

// Node is what one node may have and asks for.
type Node struct {
	// ID decides who of otherwise equal nodes gets an odd unit: the least first. With
	// IDs that differ, the order of nodes has no influence.
	ID    uint32
	Level uint8 // 1 to Levels; others count as the lowest
	Min   uint64
	Max   uint64
	// Demand is what the node would use; what it does not ask for is free for others,
	// its minimum too.
	Demand uint64
}

// want is what the node takes if there is enough. The maximum goes before the minimum.
func (n *Node) want() uint64 { return min(n.Max, n.Demand) }

func (n *Node) level() uint8 {
	if n.Level == 0 || n.Level > Levels {
		return Levels
	}
	return n.Level
}

// Outcome is the sum of an allocation.
type Outcome struct {
	Granted uint64
	// Congested: the nodes want more than there is, so priorities decide.
	Congested bool
	// Scaled: not even the minimums fit. All got the same part of theirs.
	Scaled bool
	// Level is the one that the capacity ended in: those above have all that they
	// want, those below their minimum. 0 if nobody went short or Scaled.
	Level uint8
}

// Allocator holds what allocations need again and again. The zero value is ready.
type Allocator struct {
	parts []part
}

// Allocate shares capacity among the nodes and writes what each gets into grants,
// which must be as long as nodes.
//
// Nodes of the level that capacity ends in share what is left in proportion to what
// each still wants, min(Max, Demand) less what it has: all of them are short by the
// same part. Shares are exact to the unit: what rounding leaves goes, one each, to
// those that lost most by it (largest remainder), among equals to the least ID. The
// sum of all grants is the lesser of capacity and what the nodes want.
//
// If the minimums exceed capacity, each node gets the part of its own that fits, and
// nobody anything else.
func (a *Allocator) Allocate(capacity uint64, nodes []Node, grants []uint64) Outcome {
	var reserved wide
	var more [Levels + 1]wide // by level: wanted beyond the minimums
	for i := range nodes {
		n := &nodes[i]
		want := n.want()
		least := min(n.Min, want)
		grants[i] = least
		reserved.add(least)
		more[n.level()].add(want - least)
	}
	a.parts = a.parts[:0]
	if reserved.above(capacity) {
		for i := range nodes {
			a.parts = append(a.parts, part{index: i, id: nodes[i].ID, weight: grants[i]})
			grants[i] = 0
		}
		a.split(capacity, reserved, grants)
		return Outcome{Granted: capacity, Congested: true, Scaled: true}
	}

	// The level in which the capacity ends.
	left := capacity - reserved.lo
	end := uint8(1)
	for end <= Levels && !more[end].above(left) {
		left -= more[end].lo
		end++
	}
	for i := range nodes {
		n := &nodes[i]
		switch level := n.level(); {
		case level < end:
			grants[i] = n.want()
		case level == end:
			a.parts = append(a.parts, part{index: i, id: n.ID, weight: n.want() - grants[i]})
		}
	}
	if end > Levels {
		return Outcome{Granted: capacity - left}
	}
	a.split(left, more[end], grants)
	return Outcome{Granted: capacity, Congested: true, Level: end}
}

// part is one node's claim in a split.
type part struct {
	index  int
	id     uint32
	weight uint64
	rest   wide // remainder of the division
}

// split adds amount to the grants of the parts in proportion to their weights, whose
// sum is total and greater than amount. No part gets more than its weight.
func (a *Allocator) split(amount uint64, total wide, grants []uint64) {
	given := uint64(0)
	for i := range a.parts {
		p := &a.parts[i]
		var share uint64
		share, p.rest = mulDiv(amount, p.weight, total)
		grants[p.index] += share
		given += share
	}
	odd := int(amount - given) // fewer than there are parts with a rest
	if odd == 0 {
		return
	}
	first(a.parts, odd)
	for _, p := range a.parts[:odd] {
		grants[p.index]++
	}
}
