// SPDX-License-Identifier: Apache-2.0

package precredit

import "math/bits"

// What comes after the first round trip is ordered by size too, in two places: in the
// queues of switches, of which a flow takes a later one the larger it is (Band), and at
// the sender, where the flow with the least left is first (Turn).

// Bands is how many data queues of a switch are of use, DefaultAge after how many round
// trips a flow is one turn nearer.
const (
	Bands      = 4
	DefaultAge = 96
)

// Reach is what a sender knows of a flow's size, in bytes.
type Reach struct {
	Known uint64 // the whole where that is known, else what has been posted at its start
	Sent  uint64 // for the first time
	Class Class
}

// Size is the least that the flow can have in the end.
func (r Reach) Size() uint64 { return max(r.Known, r.Sent) }

// Left is what is still to be sent. Of a flow that has outrun what was known of it that
// is expected to be as much again as it has sent.
func (r Reach) Left() uint64 {
	if r.Known > r.Sent {
		return r.Known - r.Sent
	}
	return r.Sent
}

// Band is the data queue that the flow's next packet takes in switches, of bands that
// are served strictly in order: 0, the first, for flows of one bandwidth-delay product,
// 1 up to two of them, 2 up to four, and so on, the last for the rest and never the first
// for what the classifier takes for large. A flow whose size is
// not known moves on as it sends; none ever moves back, so none of its packets passes an
// earlier one.
func (r Reach) Band(bdp uint64, bands int) uint8 {
	n := int(doublings(r.Size(), bdp))
	if r.Class == Large {
		n = max(n, 1)
	}
	return uint8(max(min(n, bands-1), 0))
}

// Turns is how many turns there are. The first, 0, is for the flow whose pre-credit is
// next, and for those that have waited for too long.
const Turns = 8

// Turn is the flow's place among those of its host: the less is left the earlier, in the
// steps of Band, small flows (1) before all large ones. For each age round trips that it
// has waited (0 = never) it is one turn nearer, to 1 and after 2*Turns of them to 0, so
// none starves.
func (r Reach) Turn(bdp, rounds, age uint64) uint8 {
	n := min(1+doublings(r.Left(), bdp), Turns-1)
	if r.Class == Large {
		n = max(n, 2)
	}
	if age > 0 {
		if rounds/age >= 2*Turns {
			return 0
		}
		n -= min(n-1, rounds/age)
	}
	return uint8(n)
}

// doublings is how often unit must be doubled to hold n bytes.
func doublings(n, unit uint64) uint64 {
	if n == 0 {
		return 0
	}
	return uint64(bits.Len64((n - 1) / max(unit, 1)))
}
