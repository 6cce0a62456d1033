// SPDX-License-Identifier: Apache-2.0

// Package share divides a bounded number of places among the hosts that ask for them, so that one
// network cannot keep the others out. A place has a rank, which is how far its host can be believed, and
// counts for the prefix of the host's address: a /24 of IPv4, a /64 of IPv6.
//
// Shares matter only when all places are taken. Then a newcomer gets the place of another one: of those with
// the lowest rank, and never of a higher rank than its own. Within the rank, the prefix with the most places
// loses its oldest one, if it has at least two more than the newcomer's prefix. So a single network may have
// all places as long as no other one asks.
//
// A Table is not safe for use by several goroutines.
package share

import (
	"container/heap"
	"container/list"
	"net/netip"
)

// Ranks is how many ranks there are, 0 to Ranks-1. A higher one displaces a lower one.
const Ranks = 5

// Table has places for values of a type.
type Table[T any] struct {
	// Max is how many places there are.
	Max int
	// MaxLowest is how many of them may have rank 0. 0: there is no such limit.
	MaxLowest int
	// Refresh says that a newcomer whose prefix has its share displaces the oldest place of its prefix, or, if
	// it has none, of another one. It is right where a place that is genuine is needed for a short time only.
	// Without it such a newcomer is refused.
	Refresh bool

	total int
	ranks [Ranks]rank[T]
	next  uint64
}

// Place is a place that is taken.
type Place[T any] struct {
	Value T
	seq   uint64
	group *group[T] // nil: it is free again
	elem  *list.Element
}

// rank has the groups of a rank.
type rank[T any] struct {
	count  int
	groups map[netip.Prefix]*group[T]
	heap   largest[T]
}

// group has the places of a prefix and a rank, the oldest in front.
type group[T any] struct {
	prefix netip.Prefix
	rank   int
	places list.List // values are *Place[T]
	index  int       // position in the heap
}

// Prefix is the network for which the places of an address count: its /24 or /64.
func Prefix(a netip.Addr) netip.Prefix {
	bits := 64
	if a = a.Unmap().WithZone(""); a.Is4() {
		bits = 24
	}
	p, _ := a.Prefix(bits) // an address that is not valid has the zero prefix
	return p
}

// Len is the number of places that are taken.
func (t *Table[T]) Len() int { return t.total }

// Take takes a place for a host. lost is the place that was displaced, nil if there was room; it is free already.
// p is nil if there is no place for the host.
func (t *Table[T]) Take(a netip.Addr, r int, v T) (p, lost *Place[T]) {
	prefix := Prefix(a)
	if full, among := t.full(r); full {
		if lost = t.victim(prefix, r, among); lost == nil {
			return nil, nil
		}
		t.Free(lost)
	}
	x := &t.ranks[r]
	g := x.groups[prefix]
	if g == nil {
		if x.groups == nil {
			x.groups = map[netip.Prefix]*group[T]{}
		}
		g = &group[T]{prefix: prefix, rank: r}
		x.groups[prefix] = g
		heap.Push(&x.heap, g)
	}
	t.next++
	p = &Place[T]{Value: v, seq: t.next, group: g}
	p.elem = g.places.PushBack(p)
	heap.Fix(&x.heap, g.index)
	x.count++
	t.total++
	return p, lost
}

// full reports whether a newcomer must displace a place, and of which rank.
func (t *Table[T]) full(r int) (full bool, among int) {
	if r == 0 && t.MaxLowest > 0 && t.ranks[0].count >= t.MaxLowest {
		return true, 0
	}
	if t.total < t.Max {
		return false, 0
	}
	for among < Ranks-1 && t.ranks[among].count == 0 {
		among++
	}
	return true, among
}

// victim returns the place that a newcomer of a prefix and rank displaces, nil if none.
func (t *Table[T]) victim(prefix netip.Prefix, r, among int) *Place[T] {
	x := &t.ranks[among]
	if among > r || x.count == 0 {
		return nil
	}
	top := x.heap[0]
	if among < r {
		return top.oldest()
	}
	own := x.groups[prefix]
	switch {
	case own.len()+1 < top.len():
		return top.oldest()
	case !t.Refresh:
		return nil
	case own != nil:
		return own.oldest()
	}
	return top.oldest()
}

// Free gives a place back. A place that is nil or free already is left alone.
func (t *Table[T]) Free(p *Place[T]) {
	if p == nil || p.group == nil {
		return
	}
	g := p.group
	x := &t.ranks[g.rank]
	g.places.Remove(p.elem)
	p.group = nil
	x.count--
	t.total--
	if g.len() == 0 {
		heap.Remove(&x.heap, g.index)
		delete(x.groups, g.prefix)
		return
	}
	heap.Fix(&x.heap, g.index)
}

func (g *group[T]) len() int {
	if g == nil {
		return 0
	}
	return g.places.Len()
}

func (g *group[T]) oldest() *Place[T] { return g.places.Front().Value.(*Place[T]) }

// largest is a heap of groups: the one with the most places on top, of equal ones that with the oldest place.
type largest[T any] []*group[T]

func (h largest[T]) Len() int { return len(h) }

func (h largest[T]) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.len() != b.len() || a.len() == 0 {
		return a.len() > b.len()
	}
	return a.oldest().seq < b.oldest().seq
}

func (h largest[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *largest[T]) Push(x any) {
	g := x.(*group[T])
	g.index = len(*h)
	*h = append(*h, g)
}

// Pop implements heap.Interface.
func (h *largest[T]) Pop() any {
	last := len(*h) - 1
	g := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return g
}
