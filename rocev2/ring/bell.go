// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"fmt"
	"math/bits"
	"sync/atomic"
)

// Queues is how many rings a bell can name.
const Queues = 64 * 64

// BellBytes is the memory of a bell: a word with one bit for each group of 64 rings, on a cache
// line of its own, and a word for each group.
const BellBytes = line + Queues/8

// Bell tells a server which rings of one process have new entries. Idle rings cost nothing.
//
// A producer writes entries first and calls Set then. The server clears the bits first and reads the
// rings then. So an entry that the server did not see has its bit set again.
type Bell struct {
	groups *atomic.Uint64
	rings  []byte
}

// OpenBell returns the bell at the start of b.
func OpenBell(b []byte) (Bell, error) {
	if len(b) < BellBytes {
		return Bell{}, fmt.Errorf("ring: %d bytes of memory for a bell of %d", len(b), BellBytes)
	}
	if err := checkAligned(b); err != nil {
		return Bell{}, err
	}
	return Bell{groups: word64(b, 0), rings: b[line:BellBytes]}, nil
}

func (b Bell) group(g int) *atomic.Uint64 { return word64(b.rings, 8*g) }

// Set says that ring i has new entries.
func (b Bell) Set(i uint32) {
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
func (b Bell) Any() bool { return b.groups.Load() != 0 }

// Take clears all bits and calls do for each ring whose bit was set.
func (b Bell) Take(do func(i uint32)) {
	if b.groups.Load() == 0 {
		return
	}
	for groups := b.groups.Swap(0); groups != 0; groups &= groups - 1 {
		g := bits.TrailingZeros64(groups)
		for rings := b.group(g).Swap(0); rings != 0; rings &= rings - 1 {
			do(uint32(64*g + bits.TrailingZeros64(rings)))
		}
	}
}

// BeaconBytes is the memory of a beacon.
const BeaconBytes = 2 * line

// Beacon is what a server shows all its clients, in memory that only the server can write.
type Beacon struct{ asleep, ended *atomic.Uint32 }

// OpenBeacon returns the beacon at the start of b.
func OpenBeacon(b []byte) (Beacon, error) {
	if len(b) < BeaconBytes {
		return Beacon{}, fmt.Errorf("ring: %d bytes of memory for a beacon of %d", len(b), BeaconBytes)
	}
	if err := checkAligned(b); err != nil {
		return Beacon{}, err
	}
	return Beacon{word32(b, 0), word32(b, line)}, nil
}

// Asleep is the word that is 1 while the server sleeps, or is about to: a client that has rung the
// bell signals it then.
func (b Beacon) Asleep() *atomic.Uint32 { return b.asleep }

// Ended is the word that is 1 when the device has ended.
func (b Beacon) Ended() *atomic.Uint32 { return b.ended }
