// SPDX-License-Identifier: Apache-2.0

package qp

// board says what became of the packets beyond sndUna, bit 0 being sndUna itself.
type board struct {
	base  uint64 // sndUna
	there bitmap // the peer keeps it
	lost  bitmap // to be sent again
	again bitmap // was sent again

	// For those that were: the how manieth packet sent again it was, and how far the
	// stream was then. Whatever left later and has arrived shows how long it is gone.
	order  uint32
	latest uint32 // of those that arrived
	sent   [sackWindow]struct {
		order uint32
		max   uint64
	}
}

// open reports that there is, or may be, a hole.
func (b *board) open() bool { return b.there.or(b.lost).or(b.again) != bitmap{} }

func (b *board) has(n uint64) bool { return n-b.base < sackWindow && b.there.has(int(n-b.base)) }

// sentAgain notes that packet n leaves once more, when max were sent once.
func (b *board) sentAgain(n, max uint64) {
	if n-b.base >= sackWindow {
		return
	}
	i := int(n - b.base)
	b.again.set(i)
	b.lost.clear(i)
	b.order++
	b.sent[n%sackWindow].order, b.sent[n%sackWindow].max = b.order, max
}

// arrived notes packets that the peer has.
func (b *board) arrived(which bitmap) {
	for f := which.and(b.again); f != (bitmap{}); {
		i := f.first()
		f.clear(i)
		b.latest = max(b.latest, b.sent[(b.base+uint64(i))%sackWindow].order)
	}
}

// advance moves the board to a new sndUna.
func (b *board) advance(taken uint64) {
	n := taken - b.base
	b.arrived(bitmap{^uint64(0), ^uint64(0)}.below(int(min(n, sackWindow))))
	b.base = taken
	b.there, b.lost, b.again = b.there.shift(n), b.lost.shift(n), b.again.shift(n)
}

// judge marks what is lost: packets that at least slack later ones have overtaken,
// counted in the order in which they were sent.
func (b *board) judge(slack int) {
	top := b.there.len()
	gone := b.there.not().and(b.lost.not()).below(top - slack)
	for f := gone.and(b.again); f != (bitmap{}); {
		i := f.first()
		f.clear(i)
		s := &b.sent[(b.base+uint64(i))%sackWindow]
		later := int(int32(b.latest - s.order))
		if beyond := int64(b.base) + int64(top) - int64(s.max); beyond > 0 {
			later = max(later, 0) + int(beyond)
		}
		if later < slack {
			gone.clear(i)
		}
	}
	b.lost = b.lost.or(gone)
}
