// SPDX-License-Identifier: Apache-2.0

package lease

import "time"

// Status is the state of a pool, for people and programs.
type Status struct {
	SlabBytes uint64       `json:"slab_bytes"`
	Slabs     int          `json:"slabs"`
	Free      int          `json:"free_slabs"`
	Closing   int          `json:"closing_slabs"` // being zeroed
	Broken    int          `json:"broken_slabs"`
	Nodes     []NodeStatus `json:"nodes"`
	Counts    Counts       `json:"counts"`
}

// NodeStatus is the state of a node.
type NodeStatus struct {
	ID        NodeID        `json:"id"`
	Name      string        `json:"name"`
	Connected bool          `json:"connected"`
	Expires   time.Duration `json:"expires_ns,omitempty"` // time until the node is dropped; only if it is not connected
	Length    time.Duration `json:"period_ns"`
	Period    uint32        `json:"period"`
	Demand    uint64        `json:"demand_bytes"` // demand of the last period
	Used      uint64        `json:"used_bytes"`
	Planned   int           `json:"planned_slabs"`
	Slabs     int           `json:"slabs"`           // slabs that the node has
	Returning int           `json:"returning_slabs"` // slabs of the node that are to be returned
	Expected  Prediction    `json:"prediction"`
}

// Status returns the state.
func (t *Table) Status(now time.Duration) Status {
	s := Status{SlabBytes: t.c.SlabBytes, Slabs: t.c.Slabs, Nodes: []NodeStatus{}, Counts: t.counts}
	for _, x := range t.slabs {
		switch x.state {
		case free:
			s.Free++
		case closing:
			s.Closing++
		case broken:
			s.Broken++
		}
	}
	for _, n := range t.nodes {
		x := NodeStatus{
			ID: n.id, Name: n.name, Connected: !n.away, Length: n.length, Period: n.period, Demand: n.usage.Demand,
			Used: n.usage.Used, Planned: n.planned, Slabs: len(n.slabs), Returning: len(n.slabs) - t.held(n),
			Expected: t.c.Planner.Prediction(n.id),
		}
		if n.away {
			x.Expires = max(n.until-now, 0)
		}
		s.Nodes = append(s.Nodes, x)
	}
	return s
}
