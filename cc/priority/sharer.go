// SPDX-License-Identifier: Apache-2.0

package priority

// Sharer shares a link among destinations by the priority of their nodes (S4.5), on top
// of congestion control. An evaluation reads the Bounds of each Destination with traffic,
// sets its rate by them, and calls Observe. At its end it calls Share once, which sets the
// bounds for the next evaluation. The rate is the lesser of the destination's part and what
// congestion control allows, and at least its minimum.
//
// Times are nanoseconds of the caller's monotonic clock, rates bits per second. A Sharer
// has one user at a time.
type Sharer struct {
	defined map[Key]*node
	dests   map[Key]*Destination // destinations with traffic
	link    SharedLink
	minimum uint64 // minimum of every destination, so that no node starves

	nodes []*node // nodes of the destinations in dests
	alloc Allocator
	in    []Node
	out   []uint64
	parts distribution
}

// Key identifies a destination: its IPv6 address, or its IPv4 address mapped to IPv6.
type Key [16]byte

// node is one machine. Its destinations, one for each address, share what it gets.
type node struct {
	id       uint32
	level    uint8
	min, max uint64
	dests    []*Destination // destinations with traffic; filled by each call of Share
}

// NewSharer returns a Sharer without nodes.
func NewSharer() *Sharer {
	return &Sharer{defined: map[Key]*node{}, dests: map[Key]*Destination{}}
}

// Define sets the priority of a node with these addresses; Demand is not used. Nodes
// that are not defined have the lowest level, no minimum and no maximum.
func (s *Sharer) Define(n Node, addresses ...Key) {
	x := &node{id: n.ID, level: n.Level, min: n.Min, max: n.Max}
	for _, key := range addresses {
		s.defined[key] = x
	}
}

// Reset forgets all traffic, as if the policy had been off until now.
func (s *Sharer) Reset() { clear(s.dests) }

// Destination returns a destination with traffic. id is the number of its node, if that is not
// defined.
func (s *Sharer) Destination(key Key, id uint32) *Destination {
	d := s.dests[key]
	if d == nil {
		d = &Destination{key: key, node: s.defined[key]}
		if d.node == nil {
			d.node = &node{id: id, level: Levels, max: All}
		}
		s.dests[key] = d
	}
	return d
}

// Observe takes in what was observed of a destination in an evaluation, and the rate that it has.
func (s *Sharer) Observe(d *Destination, o *Observation, now uint64) {
	s.minimum = o.MinBps
	d.observedNs = now
	d.usage.update(o.Bytes, now)
	if o.Paced {
		d.pacedNs = now
	}
	d.most = All
	if o.LimitBps != 0 {
		d.most = o.LimitBps
	}
	d.rate, d.allowed = o.RateBps, o.AllowedBps
	d.decidedNs, d.decreasedNs, d.queued = o.DecidedNs, o.DecreasedNs, o.Queued
}

// Share divides at most limit among the destinations and returns the outcome.
func (s *Sharer) Share(limit, now uint64) State {
	s.link.Step(limit, s.gather(now), now)
	s.in, s.out = s.in[:0], s.out[:0]
	var minimums wide
	for _, n := range s.nodes {
		in := Node{ID: n.id, Level: n.level, Min: s.floor(n), Max: n.max}
		for _, d := range n.dests {
			d.demand = d.estimateDemand(now)
			in.Demand += min(d.demand, All-in.Demand)
		}
		s.in, s.out = append(s.in, in), append(s.out, 0)
		minimums.add(in.Min)
	}
	outcome := s.alloc.Allocate(s.link.CapacityBps, s.in, s.out)
	state := s.state(outcome, limit)
	for i, n := range s.nodes {
		floor := s.in[i].Min
		if outcome.Scaled {
			part, _ := mulDiv(s.link.CapacityBps, floor, minimums)
			floor = max(part, s.out[i])
		}
		state.Held += s.assign(n, s.out[i], floor, outcome)
	}
	return state
}

// assign gives a node's part of an allocation to its destinations, or its floor if that is more:
// a node that sends little now may begin to send at its minimum at any time. Where the minimums
// do not fit, the floor is the part of its own that fits. It returns how many destinations
// congestion control would let have more.
func (s *Sharer) assign(n *node, granted, floor uint64, outcome Outcome) (held uint32) {
	share := n.max
	if outcome.Congested {
		share = max(granted, floor)
	}
	s.parts.among(n, share, floor)
	for _, d := range n.dests {
		if d.limit < d.allowed && outcome.Congested {
			held++
		}
	}
	return held
}

func (s *Sharer) state(outcome Outcome, limit uint64) State {
	x := State{CapacityBps: s.link.CapacityBps, Flags: On, Level: uint32(outcome.Level), Active: uint32(len(s.dests))}
	if outcome.Congested {
		x.Flags |= Congested
	}
	if outcome.Scaled {
		x.Flags |= Scaled
	}
	if s.link.Estimated(limit) {
		x.Flags |= Estimated
	}
	return x
}

// floor is the minimum of a node, set or not.
func (s *Sharer) floor(n *node) uint64 {
	return min(max(n.min, s.minimum*uint64(len(n.dests))), n.max)
}

// gather removes idle destinations, lists the others by node, and returns the signs of
// congestion that they show.
func (s *Sharer) gather(now uint64) (signs CongestionSigns) {
	for _, n := range s.nodes {
		n.dests = n.dests[:0]
	}
	s.nodes = s.nodes[:0]
	for key, d := range s.dests {
		if now-d.observedNs > idleNs {
			delete(s.dests, key)
			continue
		}
		if len(d.node.dests) == 0 {
			s.nodes = append(s.nodes, d.node)
		}
		d.node.dests = append(d.node.dests, d)
		d.addCongestionSigns(&signs, s.link.ChangedNs, now)
	}
	return signs
}
