// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"

	"github.com/softroce/softroce-xdp/cc/priority"
)

// Claim is what one node asks of the pool. All numbers are slabs.
type Claim struct {
	// Level is the priority; 1 is the highest.
	Level int
	// Need is the predicted need, Used what the node used in the last period.
	Need, Used uint64
	// Min is reserved for the node, Max is the most that it gets. A Min above Max is Max.
	Min, Max uint64
}

// target is the space that meets the need of a node.
func (c Claim) target() uint64 { return min(max(c.Need, c.Used, c.Min), c.Max) }

// Allocate divides a pool of slabs among nodes and writes what each gets into grants, which has the
// length of claims (it panics otherwise). Equal arguments give equal results. The order is:
//
//  1. The minimum of each node.
//  2. The need of each node, or what it used if that is more.
//  3. The remainder, from the highest level down, each node up to its maximum.
//
// Where the slabs do not suffice for a step, its nodes get equal shares, and none gets more than it asks
// (max-min). Slabs that do not divide go to the higher level, then to the first in claims.
// So a node that asks for or uses more never gets less, and the sum of grants never exceeds the pool.
func Allocate(pool uint64, claims []Claim, grants []uint64) {
	if len(grants) != len(claims) {
		panic(fmt.Sprintf("predict: %d grants for %d claims", len(grants), len(claims)))
	}
	clear(grants)
	a := division{left: pool, claims: claims, grants: grants, rooms: make([]uint64, len(claims))}
	a.fill(func(c Claim) uint64 { return min(c.Min, c.Max) })
	a.fill(Claim.target)
	for level, ok := nextLevel(claims, 0, true); ok; level, ok = nextLevel(claims, level, false) {
		a.fill(func(c Claim) uint64 {
			if c.Level == level {
				return c.Max
			}
			return 0
		})
	}
}

// nextLevel is the smallest level above another one, or the smallest of all.
func nextLevel(claims []Claim, above int, first bool) (level int, ok bool) {
	for _, c := range claims {
		if (first || c.Level > above) && (!ok || c.Level < level) {
			level, ok = c.Level, true
		}
	}
	return level, ok
}

// division is an allocation in progress.
type division struct {
	left   uint64
	claims []Claim
	grants []uint64
	rooms  []uint64 // scratch: what a node may still get in a step
}

// fill raises the grants of nodes to a limit, as far as slabs are left. Slabs that do not divide go to
// the higher level first.
func (a *division) fill(limit func(Claim) uint64) {
	for i, c := range a.claims {
		a.rooms[i] = 0
		if l := limit(c); l > a.grants[i] {
			a.rooms[i] = l - a.grants[i]
		}
	}
	share := priority.Level(a.left, a.rooms)
	for i, room := range a.rooms {
		part := min(room, share)
		a.grants[i] += part
		a.rooms[i] -= part
		a.left -= part
	}
	// Fewer slabs are left than nodes with room, unless all have what they ask.
	for level, ok := nextLevel(a.claims, 0, true); ok && a.left > 0; level, ok = nextLevel(a.claims, level, false) {
		for i, c := range a.claims {
			if c.Level == level && a.rooms[i] > 0 && a.left > 0 {
				a.grants[i]++
				a.rooms[i]--
				a.left--
			}
		}
	}
}
