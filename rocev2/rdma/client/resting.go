// SPDX-License-Identifier: Apache-2.0

package client

// restingShare: memory that was freed rests, up to ArenaBytes divided by this.
const restingShare = 8

// resting is memory that was freed and that Alloc does not return yet, oldest first. A program that frees
// memory twice gets an error in the meantime. Otherwise Free would take the memory of the next owner.
type resting struct {
	freed []freed
	bytes int
}

type freed struct {
	a *sharedArena
	b []byte
}

// rest adds memory.
func (r *resting) rest(a *sharedArena, b []byte) {
	r.freed = append(r.freed, freed{a, b})
	r.bytes += room(b)
}

// room is what a buffer counts as. The smallest have 128 bytes of an arena each, and an entry of r.freed.
func room(b []byte) int { return max(cap(b), 128) }

// giveBack gives the oldest memory to its arenas until at most limit bytes rest. It returns false if there
// was nothing to give.
func (r *resting) giveBack(limit int) bool {
	n := 0
	for ; r.bytes > limit; n++ {
		x := r.freed[n]
		x.a.Free(x.b)
		r.bytes -= room(x.b)
	}
	clear(r.freed[:n])
	r.freed = r.freed[n:]
	return n > 0
}
