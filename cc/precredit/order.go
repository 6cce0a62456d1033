// SPDX-License-Identifier: Apache-2.0

package precredit

import "math/bits"

// Data that is sent after the first RTT is ordered by size too, in two places: in the queues
// of switches, where a larger flow takes a later queue (QueueIndex), and at the sender, where
// the flow with the fewest bytes left is first (Rank). The simulator uses both; the engine uses
// neither.

// SwitchQueues is the number of data queues that FlowSize.QueueIndex is made for, DefaultAge the
// number of RTTs after which FlowSize.Rank moves a flow up by one rank.
const (
	SwitchQueues = 4
	DefaultAge   = 96
)

// FlowSize is what a sender knows of a flow's size, in bytes.
type FlowSize struct {
	KnownBytes uint64 // the whole where that is known, else what has been posted at its start
	SentBytes  uint64 // bytes that were sent for the first time
	Class      Class
}

// Size is the least that the flow can have in the end.
func (r FlowSize) Size() uint64 { return max(r.KnownBytes, r.SentBytes) }

// Remaining is the number of bytes still to be sent. A flow that has sent more than KnownBytes is
// expected to send as much again as it has sent.
func (r FlowSize) Remaining() uint64 {
	if r.KnownBytes > r.SentBytes {
		return r.KnownBytes - r.SentBytes
	}
	return r.SentBytes
}

// QueueIndex is the data queue of switches that the flow's next packet takes. bands is the
// number of data queues, which are served strictly in order. Queue 0, the first, is for flows of
// up to one bandwidth-delay product, queue 1 for up to two, queue 2 for up to four, and so on;
// the last one is for all larger flows. A flow that the classifier takes for large never takes
// queue 0. A flow whose size is not known moves on as it sends. None ever moves back, so none of
// its packets passes an earlier one.
func (r FlowSize) QueueIndex(bdp uint64, bands int) uint8 {
	n := int(doublings(r.Size(), bdp))
	if r.Class == Large {
		n = max(n, 1)
	}
	return uint8(max(min(n, bands-1), 0))
}

// Ranks is the number of ranks. Rank 0, the first, is for the flow that gets pre-credit next,
// and for flows that have waited for 2*Ranks ages.
const Ranks = 8

// Rank orders the flows of a host. It grows with the bytes left, in the steps of QueueIndex;
// small flows have rank 1, before all large ones. rounds is the number of RTTs that the flow has
// waited. After each age of them (0 = never) the rank is one lower, down to 1, and after 2*Ranks
// ages it is 0, so no flow starves.
func (r FlowSize) Rank(bdp, rounds, age uint64) uint8 {
	n := min(1+doublings(r.Remaining(), bdp), Ranks-1)
	if r.Class == Large {
		n = max(n, 2)
	}
	if age > 0 {
		if rounds/age >= 2*Ranks {
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
