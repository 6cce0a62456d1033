// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"fmt"
	"math/bits"
	"sync/atomic"
)

// Queues is how many rings a doorbell can name.
const Queues = 64 * 64

// DoorbellBytes is the memory of a doorbell: a word with one bit for each group of 64 rings, on a cache
// line of its own, and a word for each group.
const DoorbellBytes = line + Queues/8

// Doorbell tells a server which rings of one process have new entries. Idle rings cost nothing.
//
// A producer writes entries first and calls Set then. The server clears the bits first and reads the
// rings then. So an entry that the server did not see has its bit set again.
type Doorbell struct {
	groups *atomic.Uint64
	rings  []byte
}

// OpenDoorbell returns the doorbell at the start of b.
func OpenDoorbell(b []byte) (Doorbell, error) {
	if len(b) < DoorbellBytes {
		return Doorbell{}, fmt.Errorf("ring: %d bytes of memory for a doorbell of %d", len(b), DoorbellBytes)
	}
	if err := checkAligned(b); err != nil {
		return Doorbell{}, err
	}
	return Doorbell{groups: word64(b, DoorbellGroupsAt), rings: b[DoorbellRingsAt:DoorbellBytes]}, nil
}

func (b Doorbell) group(g int) *atomic.Uint64 { return word64(b.rings, 8*g) }

// Set says that ring i has new entries.
func (b Doorbell) Set(i uint32) {
	g := i / 64 % 64
	w, bit := b.group(int(g)), uint64(1)<<(i%64)
	if w.Load()&bit == 0 {
		w.Or(bit)
	}
	if bit = 1 << g; b.groups.Load()&bit == 0 {
		b.groups.Or(bit)
	}
}

// Any reports whether a bit is set.
func (b Doorbell) Any() bool { return b.groups.Load() != 0 }

// Take clears all bits and calls do for each ring whose bit was set, but for those whose bits are set in
// skip, which may be nil. What a process can have Take do without new entries is so bounded. It returns how
// many groups it has looked at.
func (b Doorbell) Take(skip *[64]uint64, do func(i uint32)) (n int) {
	if b.groups.Load() == 0 {
		return 0
	}
	for groups := b.groups.Swap(0); groups != 0; groups &= groups - 1 {
		n++
		g := bits.TrailingZeros64(groups)
		rings := b.group(g).Swap(0)
		if skip != nil {
			rings &^= skip[g]
		}
		for ; rings != 0; rings &= rings - 1 {
			do(uint32(64*g + bits.TrailingZeros64(rings)))
		}
	}
	return n
}

// StatusPageBytes is the memory of a status page.
const StatusPageBytes = 2 * line

// StatusPage is what a server shows all its clients, in memory that only the server can write.
type StatusPage struct {
	asleep *atomic.Uint64
	ended  *atomic.Uint32
}

// OpenStatusPage returns the status page at the start of b.
func OpenStatusPage(b []byte) (StatusPage, error) {
	if len(b) < StatusPageBytes {
		return StatusPage{}, fmt.Errorf("ring: %d bytes of memory for a statusPage of %d", len(b), StatusPageBytes)
	}
	if err := checkAligned(b); err != nil {
		return StatusPage{}, err
	}
	return StatusPage{word64(b, StatusPageAsleepAt), word32(b, StatusPageEndedAt)}, nil
}

// AllGroups has the bits of all groups of 64 rings.
const AllGroups = 1<<(Queues/64) - 1

// Asleep is the word that has a bit for each group of 64 rings, as a doorbell has. The bit is 1 while the thread that
// looks at these rings sleeps, or is about to.
func (b StatusPage) Asleep() *atomic.Uint64 { return b.asleep }

// Sleeps reports whether the thread that looks at ring i sleeps. A client that has new entries in the ring signals it
// then.
func (b StatusPage) Sleeps(i uint32) bool { return b.asleep.Load()>>(i/64%64)&1 != 0 }

// Ended is the word that is 1 when the device has ended.
func (b StatusPage) Ended() *atomic.Uint32 { return b.ended }
