// SPDX-License-Identifier: Apache-2.0

package qp

// scoreboard is the SACK scoreboard: the state of the packets from sndUna on. Bit 0 is
// sndUna itself.
type scoreboard struct {
	base          uint64 // sndUna
	sacked        bitmap // the peer has buffered it
	lost          bitmap // packets to be sent again
	retransmitted bitmap // packets that were sent again since

	// Retransmitted packets: the ordinal number of the retransmission, and sndMax at that
	// time. Packets that were sent later and have arrived reveal a second loss.
	order       uint32
	latestOrder uint32 // the largest order of a packet received
	sent        [sackWindow]struct {
		order uint32
		max   uint64
	}
}

// hasGap reports whether there is, or may be, a gap.
func (b *scoreboard) hasGap() bool { return b.sacked.or(b.lost).or(b.retransmitted) != bitmap{} }

func (b *scoreboard) has(n uint64) bool { return n-b.base < sackWindow && b.sacked.has(int(n-b.base)) }

// onRetransmit notes that packet n is sent again, while sndMax is max.
func (b *scoreboard) onRetransmit(n, max uint64) {
	if n-b.base >= sackWindow {
		return
	}
	i := int(n - b.base)
	b.retransmitted.set(i)
	b.lost.clear(i)
	b.order++
	b.sent[n%sackWindow].order, b.sent[n%sackWindow].max = b.order, max
}

// onSacked notes packets that the peer has received.
func (b *scoreboard) onSacked(which bitmap) {
	for f := which.and(b.retransmitted); f != (bitmap{}); {
		i := f.first()
		f.clear(i)
		b.latestOrder = max(b.latestOrder, b.sent[(b.base+uint64(i))%sackWindow].order)
	}
}

// advance moves the scoreboard to a new sndUna.
func (b *scoreboard) advance(sndUna uint64) {
	n := sndUna - b.base
	b.onSacked(bitmap{^uint64(0), ^uint64(0)}.below(int(min(n, sackWindow))))
	b.base = sndUna
	b.sacked, b.lost, b.retransmitted = b.sacked.shift(n), b.lost.shift(n), b.retransmitted.shift(n)
}
