// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"math/bits"
	"slices"
)

// runBytes is the length of a run, and of a combined READ or WRITE at most.
const runBytes = 64 << 10

// maxRun bounds the slots of a run: pages may be short.
const maxRun = 32

// run is a part of a slab: slots for pages whose numbers are next to each other, as long as there is room for
// other pages elsewhere. A group is maxRun pages, or as many as fit into runBytes, the first of which has a
// number that is a multiple of that.
type run struct {
	slab  *slab
	first int    // slot
	slots int    // the last run of a slab may be shorter
	used  uint32 // bit map
	owned bool   // a group has the run
	group int64
	at    int // index in places.empty, or in places.partial
}

func (r *run) full() bool { return bits.OnesCount32(r.used) == r.slots }

// places has the free slots of the slabs that need not be returned.
type places struct {
	shift   int // log2 of the slots of a run
	room    int // free slots
	homes   map[int64]*run
	empty   []*run // runs without a page
	partial []*run // runs with pages and free slots
}

func newPlaces(pageBytes int) places {
	n := max(1, min(maxRun, runBytes/pageBytes))
	return places{shift: bits.Len(uint(n)) - 1, homes: map[int64]*run{}}
}

// divide returns the runs of a slab.
func (s *places) divide(x *slab, slots int) (list []*run) {
	for first := 0; first < slots; first += 1 << s.shift {
		list = append(list, &run{slab: x, first: first, slots: min(1<<s.shift, slots-first)})
	}
	return list
}

// collect takes the slabs of a lease, in place of those before.
func (s *places) collect(slabs []*slab) {
	s.room, s.empty, s.partial = 0, nil, nil
	clear(s.homes)
	for _, x := range slices.Backward(slabs) { // the first slab is taken first
		if x.leaving {
			continue
		}
		for _, r := range slices.Backward(x.runs) {
			s.room += r.slots - bits.OnesCount32(r.used)
			s.list(r)
			if home := s.homes[r.group]; r.owned && (home == nil || home.full()) {
				s.homes[r.group] = r
			}
		}
	}
}

// list enters a run where it belongs. One without a page is for any group.
func (s *places) list(r *run) {
	switch {
	case r.used == 0:
		if r.owned && s.homes[r.group] == r {
			delete(s.homes, r.group)
		}
		r.owned = false
		r.at = len(s.empty)
		s.empty = append(s.empty, r)
	case !r.full():
		r.at = len(s.partial)
		s.partial = append(s.partial, r)
	}
}

// unlist takes a run out of its list.
func (s *places) unlist(r *run) {
	from := &s.partial
	if r.used == 0 {
		from = &s.empty
	}
	if r.full() {
		return
	}
	last := len(*from) - 1
	moved := (*from)[last]
	(*from)[r.at], moved.at = moved, r.at
	(*from)[last] = nil
	*from = (*from)[:last]
}

// take takes a slot for a page: next to those of its group, in a run without pages, or anywhere. nil: there is none.
func (s *places) take(number int64) (*slab, int) {
	group := number >> s.shift
	r := s.homes[group]
	switch {
	case r != nil && !r.full():
	case len(s.empty) > 0:
		r = s.empty[len(s.empty)-1]
		r.owned, r.group = true, group
		s.homes[group] = r
	case len(s.partial) > 0:
		r = s.partial[len(s.partial)-1]
	default:
		return nil, 0
	}
	s.unlist(r)
	slot := int(number) & (1<<s.shift - 1)
	if slot >= r.slots || r.used&(1<<slot) != 0 {
		slot = bits.TrailingZeros32(^r.used)
	}
	r.used |= 1 << slot
	s.list(r)
	s.room--
	return r.slab, r.first + slot
}

// give gives a slot back.
func (s *places) give(x *slab, slot int) {
	r := x.runs[slot>>s.shift]
	if !x.leaving {
		s.unlist(r)
		s.room++
	}
	r.used &^= 1 << (slot - r.first)
	if !x.leaving {
		s.list(r)
	}
}
