// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// Priority as a layer over the four-case policy (S4.5): after each evaluation the
// capacity is shared among the nodes that send, by level, minimum and maximum; the
// next evaluation enforces for each destination the lesser of that share and what
// the four-case policy allows, and never less than its minimum.
//
// It exists where the node file gives priorities. Nodes that the file leaves out are
// of the lowest level.
type prioritizer struct {
	file   map[netip.Addr]*prioNode
	dests  map[bpf.DestKey]*prioDest // that send
	uplink priority.Uplink
	least  uint64 // no destination gets less, if it can be helped: no node starves

	nodes []*prioNode // of those in dests
	alloc priority.Allocator
	in    []priority.Node
	out   []uint64
	part  split
}

// prioNode is a node: its destinations, one for each address, share what it gets.
type prioNode struct {
	id       uint32
	level    uint8
	min, max uint64
	dests    []*prioDest // gathered for one allocation
}

// prioDest is one destination with traffic. Times are of the monotonic clock.
type prioDest struct {
	key          bpf.DestKey
	node         *prioNode
	want         uint64 // at the last allocation
	limit, floor uint64 // of the last allocation; limit 0 = there was none
	rate         uint64 // enforced
	allowed      uint64 // by the four-case policy
	seen         uint64 // when it was last evaluated, that is: had traffic
	paced        uint64 // when packets last had to wait for the rate, 0 = never
	waiting      bool   // its packets waited in the network at the last decision
	decided, cut uint64
	usage        usage
}

const (
	// prioIdle is how long a destination without traffic keeps its claim.
	prioIdle = uint64(500 * time.Millisecond)
	// prioPaced is how long ago its rate may last have been too little for a
	// destination that is taken to want more.
	prioPaced = uint64(100 * time.Millisecond)
	// prioAhead is how far, as a multiple, the four-case rate may run ahead of the
	// enforced one: if the destination's own way becomes the bottleneck, few cuts must
	// be enough.
	prioAhead = 4
)

func newPrioritizer(n *nodes) *prioritizer {
	if !Prioritized(n.list) {
		return nil
	}
	p := &prioritizer{file: map[netip.Addr]*prioNode{}, dests: map[bpf.DestKey]*prioDest{}}
	for i := range n.list {
		x := &n.list[i]
		node := &prioNode{id: x.Number, level: x.Level, min: uint64(x.Min), max: uint64(x.Max)}
		if node.max == 0 {
			node.max = priority.All
		}
		for _, addr := range x.Addresses {
			p.file[addr.Unmap()] = node
		}
	}
	return p
}

// enforced is the rate for a destination for which the four-case policy has just
// decided.
func (a *Agent) enforced(slot *bpf.ExchangeSlot, regs *fourcase.Regs, params *fourcase.Params, now uint64) uint64 {
	if !a.prioritizes() {
		return regs.RateBps
	}
	return a.priority.enforce(slot, regs, params, now)
}

// prioritizes says that priorities share the link.
func (a *Agent) prioritizes() bool {
	if a.priority == nil {
		return false
	}
	prio, _ := bpf.PriorityAs[priority.Params, priority.State](a.cfg.Config)
	return prio.Mode == priority.ModeOn
}

func (p *prioritizer) enforce(slot *bpf.ExchangeSlot, regs *fourcase.Regs, params *fourcase.Params, now uint64) uint64 {
	d, r := p.dests[slot.Key], &slot.Regs
	if d == nil {
		d = &prioDest{key: slot.Key, node: p.file[bpf.AddrOf(slot.Key)]}
		if d.node == nil {
			d.node = &prioNode{id: r.Node, level: priority.Levels, max: priority.All}
		}
		p.dests[slot.Key] = d
	}
	d.seen, p.least = now, params.MinRateBps
	d.usage.take(r.TxBytes+etherLen*r.TxPackets, now)
	if r.WinPaced > 0 {
		d.paced = now
	}
	d.rate = min(regs.RateBps, d.node.max)
	if d.limit != 0 {
		d.rate = max(min(d.rate, d.limit), d.floor)
	}
	if params.Mode != fourcase.ModeFixed {
		regs.RateBps = max(min(regs.RateBps, prioAhead*min(d.rate, priority.All/prioAhead)), d.floor)
	}
	d.allowed = regs.RateBps
	d.decided, d.cut = regs.DecidedNs, regs.CutNs
	d.waiting = regs.QTxNs > int64(params.DeadbandNs) || regs.Action == fourcase.ActionLossCut || regs.Action == fourcase.ActionCECut
	return d.rate
}

// etherLen is what rates count on top of tx_bytes: they are of L2 frames.
const etherLen = 14

// usage measures what a destination is sent.
type usage struct {
	bytes, at uint64
	bps       uint64
}

const usagePeriod = uint64(50 * time.Millisecond)

func (u *usage) take(bytes, now uint64) {
	took := now - u.at
	switch {
	case u.at == 0 || bytes < u.bytes || took > uint64(time.Second):
		u.bytes, u.at = bytes, now
	case took >= usagePeriod:
		u.bps = uint64(float64(bytes-u.bytes) * 8e9 / float64(took))
		u.bytes, u.at = bytes, now
	}
}

// shareOut makes an allocation after an evaluation, and writes into the configuration
// what it came to.
func (a *Agent) shareOut(now uint64) {
	p := a.priority
	if p == nil {
		return
	}
	prio, state := bpf.PriorityAs[priority.Params, priority.State](a.cfg.Config)
	if prio.Mode != priority.ModeOn {
		*state = priority.State{}
		clear(p.dests)
		return
	}
	*state = p.shareOut(prio.Limit(a.cfg.LinkRateBps), now)
}

func (p *prioritizer) shareOut(limit, now uint64) priority.State {
	signs := p.gather(now)
	p.uplink.Step(limit, signs, now)
	p.in, p.out = p.in[:0], p.out[:0]
	for _, n := range p.nodes {
		in := priority.Node{ID: n.id, Level: n.level, Min: p.floor(n), Max: n.max}
		for _, d := range n.dests {
			d.want = d.demand(now)
			in.Demand += min(d.want, priority.All-in.Demand)
		}
		p.in, p.out = append(p.in, in), append(p.out, 0)
	}
	outcome := p.alloc.Allocate(p.uplink.CapacityBps, p.in, p.out)
	state := priority.State{
		CapacityBps: p.uplink.CapacityBps, Flags: priority.On, Level: uint32(outcome.Level), Active: uint32(len(p.dests)),
	}
	if outcome.Congested {
		state.Flags |= priority.Congested
	}
	if outcome.Scaled {
		state.Flags |= priority.Scaled
	}
	if p.uplink.Judged(limit) {
		state.Flags |= priority.Judged
	}
	for i, n := range p.nodes {
		floor := p.floor(n)
		if outcome.Scaled {
			floor = p.out[i]
		}
		share := n.max
		if outcome.Congested {
			share = max(p.out[i], floor)
		}
		p.part.among(n, share, floor)
		for _, d := range n.dests {
			if d.limit < d.allowed && outcome.Congested {
				state.Held++
			}
		}
	}
	return state
}

// floor is the minimum of a node, set or not.
func (p *prioritizer) floor(n *prioNode) uint64 {
	return min(max(n.min, p.least*uint64(len(n.dests))), n.max)
}

// gather forgets who is idle, lines the others up by node, and says what they see.
func (p *prioritizer) gather(now uint64) (s priority.Signs) {
	for _, n := range p.nodes {
		n.dests = n.dests[:0]
	}
	p.nodes = p.nodes[:0]
	for key, d := range p.dests {
		if now-d.seen > prioIdle {
			delete(p.dests, key)
			continue
		}
		if len(d.node.dests) == 0 {
			p.nodes = append(p.nodes, d.node)
		}
		d.node.dests = append(d.node.dests, d)
		if d.wantsMore(now) {
			s.UsedBps += d.rate
		} else {
			s.UsedBps += min(d.usage.bps, d.rate)
		}
		if d.decided == 0 || now-d.decided > priority.Recent {
			continue
		}
		s.Active++
		if d.waiting {
			s.Waiting++
		}
		if d.cut > p.uplink.ChangedNs {
			s.Cut++
		}
	}
	return s
}

func (d *prioDest) wantsMore(now uint64) bool { return d.paced != 0 && now-d.paced < prioPaced }

// demand is what the destination could use until the next allocation: a quarter more
// than the four-case policy lets it have, or than it has used if that was enough. So
// what a destination is entitled to but cannot use yet, because its rate climbs there
// in steps, is not idle meanwhile.
func (d *prioDest) demand(now uint64) uint64 {
	use := d.usage.bps
	if d.wantsMore(now) {
		use = d.allowed
	}
	return use + use/4
}

// split shares what a node has among its destinations.
type split struct {
	alloc priority.Allocator
	in    []priority.Node
	out   []uint64
}

// among gives each of a node's destinations its part of share, by what they want, and
// of floor.
func (s *split) among(n *prioNode, share, floor uint64) {
	if len(n.dests) == 1 {
		n.dests[0].limit, n.dests[0].floor = max(share, 1), floor
		return
	}
	// In an order that stays: else odd bits would wander, and rates with them.
	slices.SortFunc(n.dests, func(x, y *prioDest) int { return bytes.Compare(x.key.Addr[:], y.key.Addr[:]) })
	s.share(share, n.dests, func(d *prioDest) uint64 { return d.want })
	for i, d := range n.dests {
		d.limit = max(s.out[i], 1)
	}
	s.share(floor, n.dests, func(*prioDest) uint64 { return floor })
	for i, d := range n.dests {
		d.floor = min(s.out[i], floor)
		d.limit = max(d.limit, d.floor)
	}
}

func (s *split) share(amount uint64, dests []*prioDest, want func(*prioDest) uint64) {
	s.in, s.out = s.in[:0], s.out[:0]
	for i, d := range dests {
		s.in = append(s.in, priority.Node{ID: uint32(i), Level: 1, Max: amount, Demand: want(d)})
		s.out = append(s.out, 0)
	}
	s.alloc.Allocate(amount, s.in, s.out)
}
