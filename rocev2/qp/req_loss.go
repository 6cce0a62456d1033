// SPDX-License-Identifier: Apache-2.0

package qp

// Loss detection: a packet is lost when enough later ones have arrived (RFC 6675), as the SACK scoreboard has them.
// Without SACK a NAK of the responder says it (req_ack.go), and without any response the timer (req_timer.go).

// detectLost marks lost packets: at least thresh later packets were received, counted in
// the order of sending.
func (b *scoreboard) detectLost(thresh int) {
	highest := b.sacked.len()
	lost := b.sacked.not().and(b.lost.not()).below(highest - thresh)
	for f := lost.and(b.retransmitted); f != (bitmap{}); {
		i := f.first()
		f.clear(i)
		s := &b.sent[(b.base+uint64(i))%sackWindow]
		later := int(int32(b.latestOrder - s.order))
		if beyond := int64(b.base) + int64(highest) - int64(s.max); beyond > 0 {
			later = max(later, 0) + int(beyond)
		}
		if later < thresh {
			lost.clear(i)
		}
	}
	b.lost = b.lost.or(lost)
}
