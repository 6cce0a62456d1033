// SPDX-License-Identifier: Apache-2.0

package poolstore

import (
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/vmm"
)

// place is where a page is: the slot of a slab.
type place struct{ slab, slot uint32 }

// slab is a slab of the lease.
type slab struct {
	node.Slab
	free    []uint32
	pages   map[uint32]int64 // by slot
	leaving bool             // it has to be returned: nothing new is placed here
}

// layout says where each page is. It is a state machine without I/O.
type layout struct {
	pages map[int64]place
	slabs map[uint32]*slab
	order []uint32           // slabs that stay, in the order of the lease
	lost  map[int64]struct{} // pages of slabs that ended before they were moved
}

func newLayout() *layout {
	return &layout{pages: map[int64]place{}, slabs: map[uint32]*slab{}, lost: map[int64]struct{}{}}
}

// update takes a lease. Pages of slabs that are not in it any more are lost.
func (l *layout) update(lease node.Lease) {
	old := l.slabs
	l.slabs, l.order = map[uint32]*slab{}, nil
	for _, s := range lease.Slabs {
		have := old[s.Number]
		if have == nil || have.Remote != s.Remote { // with another key it is another slab
			have = &slab{Slab: s, pages: map[uint32]int64{}}
			for slot := int(s.Remote.Len/vmm.PageSize) - 1; slot >= 0; slot-- {
				have.free = append(have.free, uint32(slot))
			}
		} else {
			delete(old, s.Number)
		}
		have.Slab, have.leaving = s, !s.Return.IsZero()
		l.slabs[s.Number] = have
		if !have.leaving {
			l.order = append(l.order, s.Number)
		}
	}
	for number, s := range old {
		for slot, page := range s.pages {
			if l.pages[page] == (place{number, slot}) {
				delete(l.pages, page)
				l.lost[page] = struct{}{}
			}
		}
	}
}

// reserve returns a place to write a page to: its own, or a new one if it has none or has to move.
// commit or release follows.
func (l *layout) reserve(page int64) (place, bool) {
	if at, ok := l.pages[page]; ok && !l.slabs[at.slab].leaving {
		return at, true
	}
	for _, number := range l.order {
		s := l.slabs[number]
		if n := len(s.free); n > 0 {
			slot := s.free[n-1]
			s.free = s.free[:n-1]
			s.pages[slot] = page
			return place{number, slot}, true
		}
	}
	return place{}, false
}

// commit makes a reserved place the place of a page. It returns false if the slab has ended.
func (l *layout) commit(page int64, at place) bool {
	s := l.slabs[at.slab]
	if s == nil || !s.has(page, at.slot) {
		return false
	}
	if old, ok := l.pages[page]; ok && old != at {
		l.empty(page, old)
	}
	l.pages[page] = at
	delete(l.lost, page)
	return true
}

// release frees a reserved place that was not written.
func (l *layout) release(page int64, at place) {
	if have, ok := l.pages[page]; !ok || have != at {
		l.empty(page, at)
	}
}

// empty frees the place of a page, unless its slab has ended.
func (l *layout) empty(page int64, at place) {
	if s := l.slabs[at.slab]; s != nil && s.has(page, at.slot) {
		delete(s.pages, at.slot)
		s.free = append(s.free, at.slot)
	}
}

func (s *slab) has(page int64, slot uint32) bool {
	have, ok := s.pages[slot]
	return ok && have == page
}

// room is how many pages could be placed now.
func (l *layout) room() (n int) {
	for _, number := range l.order {
		n += len(l.slabs[number].free)
	}
	return n
}
