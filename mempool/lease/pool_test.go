// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"
)

const slabBytes = 1 << 20

// pool is a server without network: it executes the actions of a table, and checks the rules of slabs
// with each of them.
type pool struct {
	t       *testing.T
	table   *Table
	now     time.Duration
	keys    map[Slab]NodeID // slabs with a key, and whose it is
	dirty   map[Slab]bool   // slabs that were in use and were not zeroed
	closing []Slab          // closed, and Closed was not called
	slow    bool            // Closed is called by finish only
	leases  map[NodeID]int  // ActionLease of each node
	asked   map[NodeID]uint32
	dropped map[NodeID]bool
}

func newPool(t *testing.T, c Config) *pool {
	t.Helper()
	return (&pool{t: t, dropped: map[NodeID]bool{}}).start(c, nil)
}

// start makes a new table, with a saved state or nil.
func (p *pool) start(c Config, saved *Saved) *pool {
	p.t.Helper()
	c.SlabBytes = slabBytes
	if c.Token == nil {
		last := uint64(1000)
		c.Token = func() uint64 { last++; return last }
	}
	var err error
	if p.table, err = New(c); err != nil {
		p.t.Fatal(err)
	}
	p.keys, p.dirty, p.leases, p.asked, p.closing = map[Slab]NodeID{}, map[Slab]bool{}, map[NodeID]int{}, map[NodeID]uint32{}, nil
	if saved != nil {
		if err := p.table.Restore(p.now, *saved); err != nil {
			p.t.Fatal(err)
		}
	}
	return p
}

func (p *pool) run(list []Action) {
	p.t.Helper()
	for _, a := range list {
		switch a.Kind {
		case ActionOpen:
			if owner, taken := p.keys[a.Slab]; taken || p.dirty[a.Slab] {
				p.t.Fatalf("slab %d is opened for node %d: key of node %d: %v, with old data: %v", a.Slab, a.Node, owner, taken, p.dirty[a.Slab])
			}
			p.keys[a.Slab], p.dirty[a.Slab] = a.Node, true
		case ActionClose:
			if owner, ok := p.keys[a.Slab]; ok && owner != a.Node {
				p.t.Fatalf("slab %d of node %d is closed for node %d", a.Slab, owner, a.Node)
			}
			delete(p.keys, a.Slab)
			p.closing = append(p.closing, a.Slab)
		case ActionLease:
			p.leases[a.Node]++
		case ActionAsk:
			p.asked[a.Node] = a.Period
		case ActionDrop:
			p.dropped[a.Node] = true
		}
	}
	if !p.slow {
		p.finish(len(p.closing))
	}
	p.check()
}

// finish zeroes the first n slabs that were closed.
func (p *pool) finish(n int) {
	for _, s := range p.closing[:n] {
		p.dirty[s] = false
		p.table.Closed(s)
	}
	p.closing = p.closing[n:]
}

// check compares the keys with the leases of the nodes.
func (p *pool) check() {
	p.t.Helper()
	s := p.table.Status(p.now)
	owned := map[Slab]NodeID{}
	sum := s.Free + s.Closing + s.Broken
	for _, n := range s.Nodes {
		sum += n.Slabs
		for _, g := range p.table.Lease(p.now, n.ID) {
			if other, taken := owned[g.Slab]; taken {
				p.t.Fatalf("slab %d is leased to nodes %d and %d", g.Slab, other, n.ID)
			}
			owned[g.Slab] = n.ID
			if n.Connected && p.keys[g.Slab] != n.ID {
				p.t.Fatalf("slab %d is leased to node %d, and its key is that of node %d", g.Slab, n.ID, p.keys[g.Slab])
			}
		}
	}
	for slab, n := range p.keys {
		if owned[slab] != n {
			p.t.Fatalf("the key of node %d to slab %d is valid, and the slab is not leased to it", n, slab)
		}
	}
	if sum != s.Slabs {
		p.t.Fatalf("%d of %d slabs are free, closing, broken or leased", sum, s.Slabs)
	}
}

// until advances the time step by step. answer is called with each node that is asked.
func (p *pool) until(end time.Duration, answer func(n NodeID, period uint32)) {
	p.t.Helper()
	for {
		at, ok := p.table.Next()
		if !ok || at > end {
			p.now = end
			return
		}
		p.now = max(p.now, at)
		p.run(p.table.Tick(p.now))
		for _, n := range slices.Sorted(maps.Keys(p.asked)) {
			period := p.asked[n]
			delete(p.asked, n)
			if answer != nil {
				answer(n, period)
			}
		}
	}
}

func (p *pool) join(name string, period time.Duration, slabs int) Welcome {
	p.t.Helper()
	w, list, err := p.table.Join(p.now, Request{Name: name, Period: period, Demand: uint64(slabs) * slabBytes})
	if err != nil {
		p.t.Fatal(err)
	}
	p.run(list)
	return w
}

// reports returns an answer for until: each node reports the same number of slabs, demanded and used.
func (p *pool) reports(slabs map[NodeID]int) func(NodeID, uint32) {
	return func(n NodeID, period uint32) {
		p.t.Helper()
		need := uint64(slabs[n]) * slabBytes
		u := Usage{Demand: need, Used: need}
		p.run(p.table.Report(p.now, n, period, u))
	}
}

func (p *pool) slabs(n NodeID) (leased, toReturn int) {
	for _, g := range p.table.Lease(p.now, n) {
		if g.Return == 0 {
			leased++
		} else {
			toReturn++
		}
	}
	return leased, toReturn
}

func (p *pool) wants(n NodeID, leased, toReturn int) {
	p.t.Helper()
	if a, b := p.slabs(n); a != leased || b != toReturn {
		p.t.Fatalf("at %v, node %d has %d slabs and %d to return; want %d and %d", p.now, n, a, b, leased, toReturn)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}
