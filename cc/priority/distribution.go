// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"bytes"
	"slices"
)

// distribution divides what a node gets among its destinations. It keeps the memory of
// earlier calls.
type distribution struct {
	alloc Allocator
	in    []Node
	out   []uint64
}

// among sets the limit and the floor of each destination of a node. Share is split by demand,
// floor evenly.
func (x *distribution) among(n *node, share, floor uint64) {
	if len(n.dests) == 1 {
		n.dests[0].limit, n.dests[0].floor = max(share, 1), floor
		return
	}
	// The order must not change, or remainders of divisions would move from one
	// destination to another, and rates with them.
	slices.SortFunc(n.dests, func(a, b *Destination) int { return bytes.Compare(a.key[:], b.key[:]) })
	x.divide(share, n.dests, func(d *Destination) uint64 { return d.demand })
	for i, d := range n.dests {
		d.limit = max(x.out[i], 1)
	}
	x.divide(floor, n.dests, func(*Destination) uint64 { return floor })
	for i, d := range n.dests {
		d.floor = min(x.out[i], floor)
		d.limit = max(d.limit, d.floor)
	}
}

// divide writes into out what each destination gets of amount.
func (x *distribution) divide(amount uint64, dests []*Destination, demand func(*Destination) uint64) {
	x.in, x.out = x.in[:0], x.out[:0]
	for i, d := range dests {
		x.in = append(x.in, Node{ID: uint32(i), Level: 1, Max: amount, Demand: demand(d)})
		x.out = append(x.out, 0)
	}
	x.alloc.Allocate(amount, x.in, x.out)
}
