// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"slices"
	"time"
)

// slabState is the state of a slab.
//
//	free ──► leased ◄──► returning
//	 ▲          │            │
//	 └─ closing ◄────────────┘      closing ──► broken
type slabState uint8

const (
	free      slabState = iota // zeroed, without a key
	leased                     // a node has it
	returning                  // a node has it until a deadline
	closing                    // its key is being ended; it is being zeroed
	broken                     // its key could not be ended: never leased again
)

type slab struct {
	state  slabState
	owner  *node         // leased, returning
	opened bool          // the slab has a key; false after a restart, until the owner comes back
	until  time.Duration // returning: the deadline
}

// lease gives a node a free slab. False: there is none.
func (t *Table) lease(n *node) bool {
	if len(t.free) == 0 {
		return false
	}
	s := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	t.slabs[s] = slab{state: leased, owner: n, opened: true}
	n.slabs = append(n.slabs, s)
	t.do(Action{Kind: ActionOpen, Node: n.id, Slab: s})
	t.changes++
	return true
}

// close takes a slab from its owner.
func (t *Table) close(s Slab) {
	x := &t.slabs[s]
	n := x.owner
	n.slabs = slices.DeleteFunc(n.slabs, func(o Slab) bool { return o == s })
	*x = slab{state: closing}
	t.do(Action{Kind: ActionClose, Node: n.id, Slab: s})
	t.changes++
}

// reopen gives keys to slabs of a node that a restart has closed.
func (t *Table) reopen(n *node) {
	for _, s := range n.slabs {
		if x := &t.slabs[s]; !x.opened {
			x.opened = true
			t.do(Action{Kind: ActionOpen, Node: n.id, Slab: s})
		}
	}
}

// Closed notes that the key of a slab has ended and that the slab is zeroed.
func (t *Table) Closed(s Slab) {
	if int(s) < len(t.slabs) && t.slabs[s].state == closing {
		t.slabs[s].state = free
		t.free = append(t.free, s)
	}
}

// CloseFailed notes that the key of a slab could not be ended. The slab is never leased again.
func (t *Table) CloseFailed(s Slab) {
	if int(s) < len(t.slabs) && t.slabs[s].state == closing {
		t.slabs[s].state = broken
		t.broken++
	}
}

// OpenFailed notes that a slab got no key. The slab is free again.
func (t *Table) OpenFailed(s Slab) {
	if int(s) >= len(t.slabs) || t.slabs[s].owner == nil {
		return
	}
	n := t.slabs[s].owner
	n.slabs = slices.DeleteFunc(n.slabs, func(o Slab) bool { return o == s })
	t.slabs[s] = slab{}
	t.free = append(t.free, s)
	t.changes++
}

// Return takes slabs that a node has returned, whether it was asked to or not. Slabs of others, and
// slabs whose deadline has passed, are ignored.
func (t *Table) Return(id NodeID, list []Slab) []Action {
	for _, s := range list {
		if int(s) >= len(t.slabs) || t.slabs[s].owner == nil || t.slabs[s].owner.id != id {
			t.counts.Stale++
			continue
		}
		t.close(s)
		t.counts.Returned++
	}
	return t.actions()
}

// held returns how many slabs a node has leased and need not return.
func (t *Table) held(n *node) (count int) {
	for _, s := range n.slabs {
		if t.slabs[s].state == leased {
			count++
		}
	}
	return count
}

// resize brings the lease of a node to a number of slabs, as far as there are free ones. Those that
// were leased last are returned first.
func (t *Table) resize(now time.Duration, n *node, slabs int) {
	held := t.held(n)
	for _, s := range n.slabs {
		if held < slabs && t.slabs[s].state == returning {
			t.slabs[s].state = leased
			held++
		}
	}
	for held < slabs && t.lease(n) {
		held++
	}
	for _, s := range slices.Backward(n.slabs) {
		if held > slabs && t.slabs[s].state == leased {
			t.slabs[s].state, t.slabs[s].until = returning, now+t.c.Grace
			held--
		}
	}
}

// Lease returns the slabs of a node, those to return among them.
func (t *Table) Lease(now time.Duration, id NodeID) []Grant {
	n := t.node(id)
	if n == nil {
		return nil
	}
	list := make([]Grant, 0, len(n.slabs))
	for _, s := range n.slabs {
		g := Grant{Slab: s}
		if x := t.slabs[s]; x.state == returning {
			g.Return = max(x.until-now, 1)
		}
		list = append(list, g)
	}
	return list
}
