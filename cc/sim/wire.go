// SPDX-License-Identifier: Apache-2.0

package sim

// wireEntry is a packet on a wire.
type wireEntry struct {
	at tick // when it arrives
	id int32
}

// ring is the packets on one wire, in order, in a piece of the arena. The time of
// the next arrival lies beside the last one's, so that setting the next event does
// not need the next packet.
type ring struct {
	off, mask  uint32
	head, tail uint32 // counts of those taken and put
}

// arena holds the rings of all wires.
type arena []wireEntry

const firstRing = 16

func newArena(rings int) arena { return make(arena, rings*firstRing) }

// piece is the i-th ring.
func (a arena) piece(i int) ring { return ring{off: uint32(i * firstRing), mask: firstRing - 1} }

func (r *ring) empty() bool { return r.head == r.tail }

func (a *arena) push(r *ring, e wireEntry) {
	if r.tail-r.head > r.mask {
		a.grow(r)
	}
	(*a)[r.off+r.tail&r.mask] = e
	r.tail++
}

// grow moves a full ring to a piece of twice the size. The old one is left: all
// that is ever left is as much as is in use.
func (a *arena) grow(r *ring) {
	old := *r
	r.off, r.mask = uint32(len(*a)), 2*old.mask+1
	*a = append(*a, make([]wireEntry, r.mask+1)...)
	for i := old.head; i != old.tail; i++ {
		(*a)[r.off+i&r.mask] = (*a)[old.off+i&old.mask]
	}
}

func (a arena) first(r *ring) *wireEntry { return &a[r.off+r.head&r.mask] }

func (a arena) pop(r *ring) *wireEntry {
	e := a.first(r)
	r.head++
	return e
}
