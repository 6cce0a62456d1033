// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"math/rand/v2"
	"testing"
)

// model has the slots that are in use.
type model struct {
	places
	t     *testing.T
	slabs []*slab
	used  map[slotOf]int64 // the page in it
	where map[int64]slotOf
}

type slotOf struct {
	x    *slab
	slot int
}

func newModel(t *testing.T, pageBytes int) *model {
	return &model{places: newPlaces(pageBytes), t: t, used: map[slotOf]int64{}, where: map[int64]slotOf{}}
}

func (m *model) lease(slots int) {
	x := &slab{number: uint32(len(m.slabs))}
	x.runs = m.divide(x, slots)
	m.slabs = append(m.slabs, x)
	m.collect(m.slabs)
}

// end ends the lease of a slab.
func (m *model) end(i int) {
	x := m.slabs[i]
	x.leaving = true
	for page, at := range m.where {
		if at.x == x {
			m.remove(page)
		}
	}
	m.slabs = append(m.slabs[:i:i], m.slabs[i+1:]...)
	m.collect(m.slabs)
}

func (m *model) remove(page int64) {
	at, ok := m.where[page]
	if !ok {
		return
	}
	m.give(at.x, at.slot)
	delete(m.used, at)
	delete(m.where, page)
}

func (m *model) free() (sum int) {
	for _, x := range m.slabs {
		if x.leaving {
			continue
		}
		for _, r := range x.runs {
			for i := range r.slots {
				if _, ok := m.used[slotOf{x, r.first + i}]; !ok {
					sum++
				}
			}
		}
	}
	return sum
}

func (m *model) place(page int64) {
	m.t.Helper()
	before := m.free()
	x, slot := m.take(page)
	if (x == nil) != (before == 0) {
		m.t.Fatalf("%d slots are free, and a page got slab %v", before, x)
	}
	if x == nil {
		return
	}
	at := slotOf{x, slot}
	if other, ok := m.used[at]; ok {
		m.t.Fatalf("pages %d and %d have one slot", other, page)
	}
	if last := x.runs[len(x.runs)-1]; x.leaving || slot < 0 || slot >= last.first+last.slots {
		m.t.Fatalf("page %d has slot %d of a slab that is leaving: %v", page, slot, x.leaving)
	}
	m.used[at], m.where[page] = page, at
}

// Whatever is taken, given back, leased and returned: no slot has two pages, and each free slot is found.
func TestPlacesRandom(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		m := newModel(t, []int{512, 4096, 16384, 1 << 20}[rnd.IntN(4)])
		slots := 1 + rnd.IntN(70)
		for range 1500 {
			page := rnd.Int64N(200)
			switch k := rnd.IntN(100); {
			case k < 60:
				if _, ok := m.where[page]; !ok {
					m.place(page)
				}
			case k < 95:
				m.remove(page)
			case len(m.slabs) == 0 || k < 97 && len(m.slabs) < 8:
				m.lease(slots)
			case k < 99:
				x := m.slabs[rnd.IntN(len(m.slabs))]
				x.leaving = !x.leaving
				m.collect(m.slabs)
			default:
				m.end(rnd.IntN(len(m.slabs)))
			}
			if free := m.free(); free != m.room {
				t.Fatalf("seed %d: %d slots are free, %d are counted", seed, free, m.room)
			}
		}
	}
}

// Pages with neighbouring numbers are neighbours, in whatever order they come, while there are runs for all groups.
func TestPlacesNeighbours(t *testing.T) {
	m := newModel(t, 4096)
	m.lease(256)
	m.lease(256)
	for _, page := range rand.New(rand.NewPCG(1, 1)).Perm(512) {
		m.place(int64(page))
	}
	for page := range int64(512) {
		first := m.where[page&^15]
		if at := m.where[page]; at.x != first.x || at.slot != first.slot+int(page&15) || first.slot%16 != 0 {
			t.Fatalf("page %d is in slot %d, the first of its group in slot %d", page, at.slot, first.slot)
		}
	}
}
