// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"bytes"
	"slices"
	"time"
)

// Receiver divides the link of a host among the nodes that send to it, by their priority (S1.8,
// S4.5). Senders obey rates that the host names (Limit), and each limit ends by itself.
//
// While the link is not congested, there is no limit. The link is congested when most of it is
// used. Each node then gets its minimum, and the rest goes by level, until the demands have fitted
// the link for some time. A source that uses its limit is assumed to want twice as much, and soon
// all; one that uses less of it wants little more than it sends. While the link is overrun, what
// arrives is not what sources want, and all that send a good part of it are assumed to want all. A
// new source has no limit until its usage is measured.
//
// Note is called with what has arrived from a source, Divide in regular periods. Times are
// nanoseconds of the caller's monotonic clock, rates bits per second. A Receiver has one user at a
// time.
type Receiver struct {
	defined map[Key]*node
	sources map[Key]*source
	nodes   []*receiverNode
	byNode  map[*node]*receiverNode

	congested bool
	link      uint64 // rate of the link at the last call of Divide
	fitsSince uint64 // the demands fit the link since then, 0 = they do not
	fullAt    uint64 // the link was full then,
	fullSince uint64 // beginning of the time that the link was full, but for gaps

	alloc Allocator
	in    []Node
	out   []uint64
}

// receiverNode is a node with those of its addresses that send.
type receiverNode struct {
	*node
	sources []*source
}

// source is one address that sends to this host.
type source struct {
	key   Key
	node  *node
	usage usage  // use of the link
	plain uint64 // bytes that arrived, as limits count them, at the last update
	whole uint64 // bytes that arrived, as the link counts them, at the last update
	ratio uint64 // plain/whole of the last period, /1024

	limit    uint64 // named to the source, 0 = none; in bits of the link
	known    recentMax
	wants    uint64 // rate that the source may need, estimated by its use of its limit
	wantedAt uint64 // time of the last estimate of wants
	seen     uint64
}

// Arrivals are what has arrived from a source since its entry was created.
type Arrivals struct {
	Node    uint32 // number of the node, if the node is not defined
	Packets uint64
	Bytes   uint64 // bytes of layer 2, without stamps
	Stamps  uint64 // bytes of stamps
}

// Limit is what a source may send, in bit/s of layer 2 without stamps.
type Limit struct {
	Key Key
	Bps uint64 // 0: not limited
	// Police is the rate above which its packets are dropped: the largest limit of the last moments,
	// as the source may not know the present one yet, and a tolerance. 0: none.
	Police uint64
}

const (
	// sourceIdle is how long a source without packets keeps its part.
	sourceIdle = uint64(500 * time.Millisecond)
	// wantedFor: a source that used its limit within this time wants more. It is longer than it takes
	// until others are policed at a lower limit, so that a queue of theirs does not hide what it wants.
	wantedFor = uint64(700 * time.Millisecond)
	// fitFor is how long demands fit the link before the limits end.
	fitFor = uint64(time.Second)
	// fullGap is for how long the queue of a link that stays full may drain.
	fullGap = uint64(100 * time.Millisecond)
	// policeAfter is how long a source has to learn a limit.
	policeAfter = uint64(300 * time.Millisecond)

	congestedShift = 3 // congested if more than 7/8 of the link are used
	usesShift      = 3 // a source uses its limit if it sends more than 7/8 of it
	reserveShift   = 6 // 1/64 of the link is not given away, so that its queue drains
	policeShift    = 3 // the tolerance is 1/8

	// littlePart: what is less than 1/16 of an even part of the traffic, ACKs and requests for
	// example, is all that its source wants.
	littlePart = 16
)

// NewReceiver returns a Receiver without nodes.
func NewReceiver() *Receiver {
	return &Receiver{defined: map[Key]*node{}, sources: map[Key]*source{}, byNode: map[*node]*receiverNode{}}
}

// Define sets the priority of a node with these addresses; Demand is not used. Nodes that are not
// defined have the lowest level, no minimum and no maximum.
func (r *Receiver) Define(n Node, addresses ...Key) {
	x := &node{id: n.ID, level: n.Level, min: n.Min, max: n.Max}
	for _, key := range addresses {
		r.defined[key] = x
	}
}

// Note takes in what has arrived from a source.
func (r *Receiver) Note(key Key, a *Arrivals, now uint64) {
	whole := a.Bytes + a.Stamps
	s := r.sources[key]
	if s == nil {
		s = &source{key: key, node: r.defined[key], ratio: 1024, plain: a.Bytes, whole: whole}
		if s.node == nil {
			s.node = &node{id: a.Node, level: Levels, max: All}
		}
		r.sources[key] = s
	}
	if whole != s.usage.bytes || s.seen == 0 {
		s.seen = now
	}
	at := s.usage.at
	s.usage.update(whole, now)
	if s.usage.at == at {
		return
	}
	if whole > s.whole {
		s.ratio = max((a.Bytes-s.plain)*1024/(whole-s.whole), 512)
		s.plain, s.whole = a.Bytes, whole
	}
	if s.limit != 0 && s.usage.bps > s.limit-s.limit>>usesShift {
		s.want(2*max(min(s.limit, r.link), s.demand(now)), r.link, now)
	}
}

// want sets what the source may want. It is at most the link, or the others of its level would get
// nothing until they have shown that they want more.
func (s *source) want(bps, link, now uint64) {
	s.wants, s.wantedAt = min(bps, link), now
}

// Divide divides a link of link bit/s. floor is the least that any source gets if possible.
func (r *Receiver) Divide(link, floor, now uint64) State {
	r.link = link
	used := r.gather(now)
	busy := used > link-link>>congestedShift
	if r.overrun(used, now) && busy {
		// What others send of what they want is not known: the link has no room for more.
		for _, s := range r.sources {
			if s.usage.measured && s.usage.bps >= used/uint64(littlePart*len(r.sources)) {
				s.want(link, link, now)
			}
		}
	}
	if busy {
		r.congested, r.fitsSince = true, 0
	}
	state := State{CapacityBps: link, Flags: On, Active: uint32(len(r.sources))}
	if !r.congested {
		r.free()
		return state
	}
	outcome := r.allocate(link-link>>reserveShift, floor, now)
	switch {
	case outcome.Congested:
		r.fitsSince = 0
	case r.fitsSince == 0:
		r.fitsSince = now
	case now-r.fitsSince >= fitFor:
		r.congested = false
		r.free()
		return state
	}
	state.Flags |= Congested
	if outcome.Scaled {
		state.Flags |= Scaled
	}
	state.Level = uint32(outcome.Level)
	for _, s := range r.sources {
		if s.limit != 0 {
			state.Held++
		}
	}
	return state
}

// overrun reports whether a source sends more than it may, or the link stays full after all had the
// time to learn their limits, which do not fill it.
func (r *Receiver) overrun(used, now uint64) bool {
	if used > r.link-r.link>>(reserveShift+1) {
		r.fullAt = now
	} else if now-r.fullAt > fullGap {
		r.fullSince = now
	}
	if now-r.fullSince > policeAfter {
		return true
	}
	for _, s := range r.sources {
		if most := s.known.most(); s.limit != 0 && s.usage.bps > min(most, All/2)+most>>policeShift {
			return true
		}
	}
	return false
}

// allocate sets the limits of all sources.
func (r *Receiver) allocate(capacity, floor, now uint64) Outcome {
	r.in, r.out = r.in[:0], r.out[:0]
	for _, n := range r.nodes {
		in := Node{ID: n.id, Level: n.level, Min: min(max(n.min, floor*uint64(len(n.sources))), n.max), Max: n.max}
		in.Min, in.Max = n.onLink(in.Min), n.onLink(in.Max)
		for _, s := range n.sources {
			in.Demand = min(in.Demand+s.demand(now), r.link)
		}
		r.in, r.out = append(r.in, in), append(r.out, 0)
	}
	outcome := r.alloc.Allocate(capacity, r.in, r.out)
	for i, n := range r.nodes {
		part := r.out[i]
		if !outcome.Scaled { // a node that sends little may begin to send at its minimum
			part = max(part, r.in[i].Min)
		}
		r.amongSources(n, part, now)
	}
	return outcome
}

// onLink converts bits that senders count to those of the link.
func (n *receiverNode) onLink(bps uint64) uint64 {
	var plain, whole uint64
	for _, s := range n.sources {
		plain, whole = plain+s.usage.bps>>10*s.ratio, whole+s.usage.bps>>10*1024
	}
	if bps >= All/2 || plain == 0 {
		return bps
	}
	q, _ := mulDiv(bps, whole, wide{0, plain}) // at most twice bps
	return q
}

// amongSources divides what a node gets among its addresses, by demand.
func (r *Receiver) amongSources(n *receiverNode, part, now uint64) {
	if len(n.sources) == 1 {
		n.sources[0].set(part, now)
		return
	}
	// The order must not change, or remainders of divisions would move from one to another.
	slices.SortFunc(n.sources, func(a, b *source) int { return bytes.Compare(a.key[:], b.key[:]) })
	in, out := make([]Node, len(n.sources)), make([]uint64, len(n.sources))
	for i, s := range n.sources {
		in[i] = Node{ID: uint32(i), Level: 1, Min: part / uint64(len(in)), Max: part, Demand: s.demand(now)}
	}
	r.alloc.Allocate(part, in, out)
	for i, s := range n.sources {
		s.set(out[i], now)
	}
}

// demand returns what the source could use until the next division: a quarter more than it
// sends, or what it may want.
func (s *source) demand(now uint64) uint64 {
	demand := s.usage.bps + s.usage.bps/4
	if s.wantedAt != 0 && now-s.wantedAt < wantedFor {
		demand = max(demand, s.wants)
	}
	return demand
}

// set changes the limit of the source.
func (s *source) set(limit, now uint64) {
	limit = max(limit, 1)
	if s.limit == 0 {
		s.known = recentMax{before: All, at: now}
	}
	s.known.add(limit, now)
	s.limit = limit
}

// recentMax is the largest limit of the last one to two periods of policeAfter.
type recentMax struct {
	before, present uint64
	at              uint64 // start of the present period
}

// most is All in the first period.
func (m *recentMax) most() uint64 { return max(m.before, m.present) }

func (m *recentMax) add(limit, now uint64) {
	if now-m.at >= policeAfter {
		m.before, m.present, m.at = m.present, 0, now
	}
	m.present = max(m.present, limit)
}

// free ends all limits.
func (r *Receiver) free() {
	for _, s := range r.sources {
		s.limit, s.wants, s.wantedAt = 0, 0, 0
	}
}

// gather forgets idle sources, lists by node those whose usage is known, and returns what they use
// of the link.
func (r *Receiver) gather(now uint64) (used uint64) {
	r.nodes = r.nodes[:0]
	clear(r.byNode)
	for key, s := range r.sources {
		if now-s.seen > sourceIdle {
			delete(r.sources, key)
			continue
		}
		if !s.usage.measured {
			continue
		}
		n := r.byNode[s.node]
		if n == nil {
			n = &receiverNode{node: s.node}
			r.byNode[s.node] = n
			r.nodes = append(r.nodes, n)
		}
		n.sources = append(n.sources, s)
		used += s.usage.bps
	}
	return used
}

// Congested reports whether the link was congested at the last call of Divide.
func (r *Receiver) Congested() bool { return r.congested }

// Limits calls f with the limit of each source, in no order.
func (r *Receiver) Limits(f func(Limit)) {
	for key, s := range r.sources {
		x := Limit{Key: key}
		if s.limit != 0 {
			x.Bps = max(s.asSent(s.limit), 1)
			if police := s.known.most(); police != All {
				x.Police = s.asSent(min(police, All/2) + police>>policeShift)
			}
		}
		f(x)
	}
}

// asSent converts bits of the link to those that senders count.
func (s *source) asSent(bps uint64) uint64 {
	q, _ := mulDiv(s.ratio, bps, wide{0, 1024})
	return q
}
