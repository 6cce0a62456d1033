// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"time"
)

// Saved is what survives a restart of the server: which node has which slabs. The data of the slabs does
// not survive.
type Saved struct {
	LastID NodeID      `json:"last_id"`
	Nodes  []SavedNode `json:"nodes"`
}

// SavedNode is a node of Saved. Token must stay secret.
type SavedNode struct {
	ID     NodeID        `json:"id"`
	Name   string        `json:"name"`
	Token  uint64        `json:"token"`
	Length time.Duration `json:"period_ns"`
	Period uint32        `json:"period"`
	Usage  Usage         `json:"usage"`
	Slabs  []Slab        `json:"slabs"`
}

// Save returns the state to store.
func (t *Table) Save() Saved {
	s := Saved{LastID: t.lastID, Nodes: []SavedNode{}}
	for _, n := range t.nodes {
		s.Nodes = append(s.Nodes, SavedNode{
			ID: n.id, Name: n.name, Token: n.token, Length: n.length, Period: n.period, Usage: n.usage, Slabs: append([]Slab{}, n.slabs...),
		})
	}
	return s
}

// Restore brings what Save has returned into a new table. Each node is away, and has Config.Hold to come
// back; its slabs get keys then. Slabs that the pool does not have are left out. After an error the table
// is of no further use.
func (t *Table) Restore(now time.Duration, s Saved) error {
	for _, x := range s.Nodes {
		n := &node{
			id: x.ID, name: x.Name, token: x.Token, length: x.Length, period: x.Period, usage: x.Usage, away: true, dropAt: now + t.c.Hold,
		}
		if x.ID == 0 || x.ID > s.LastID || t.node(x.ID) != nil || !validName(x.Name) || t.byName(x.Name) != nil {
			return fmt.Errorf("lease: saved node %d, %.40q: the number or the name is invalid or stands twice", x.ID, x.Name)
		}
		for _, slabNumber := range x.Slabs {
			if int(slabNumber) >= len(t.slabs) {
				continue
			}
			if t.slabs[slabNumber].owner != nil {
				return fmt.Errorf("lease: saved node %d: slab %d has two owners", x.ID, slabNumber)
			}
			t.slabs[slabNumber] = slab{state: leased, owner: n}
			n.slabs = append(n.slabs, slabNumber)
		}
		t.nodes = append(t.nodes, n)
		if p, ok := t.c.Planner.(Resumer); ok {
			p.Resume(n.id, n.usage)
		} else {
			t.c.Planner.Observe(n.id, n.usage)
		}
	}
	t.lastID = s.LastID
	t.free = t.free[:0]
	for i := len(t.slabs) - 1; i >= 0; i-- {
		if t.slabs[i].owner == nil {
			t.free = append(t.free, Slab(i))
		}
	}
	t.changes++
	return nil
}
