// SPDX-License-Identifier: Apache-2.0

package fourcase

// Loss alone is no proof of congestion: cables, full receive rings and policers lose
// packets too. A queue grows before it overflows, so the decrease follows the queueing
// delay. Where there is none, it follows the share of the sent packets that was lost:
//
//   - up to lossFree the rate does not change;
//   - above it the rate decreases by half of that share, unless decreases have not changed
//     the share for a while (the base share, at most lossHeavy);
//   - from lossHeavy on, or if losses go on without any feedback, the decrease is the full
//     one.
const (
	lossOne   = 1 << 20
	lossFree  = lossOne / 64 // 1.6 %
	lossHeavy = lossOne / 10
	lossBlind = 2 // windows
)

// updateLoss updates the smoothed shares with the loss of a window. The base share follows a
// fall of the share at once and a rise slowly: loss that is caused by the rate of this
// sender vanishes with each decrease, and the base with it.
func (r *Regs) updateLoss(s *Sample, feedback bool) {
	sent := uint64(s.Samples)
	if s.Sent != 0 {
		sent = s.Sent - r.SentPackets
		if r.SentPackets == 0 || sent > 1<<31 {
			sent = 1 << 8 // another counter
		}
		r.SentPackets = s.Sent
	}
	lost := uint64(s.Loss) + uint64(r.OpenLost)
	r.OpenLost = 0
	switch {
	case feedback:
		r.NoFeedback = 0
	case s.Loss > 0:
		r.NoFeedback = min(r.NoFeedback+1, lossBlind)
	}
	if lost == 0 && (sent == 0 || r.LossQ20 == 0) {
		return
	}
	var share uint32
	if lost > 0 {
		share = uint32(min(lost*lossOne/max(sent, lost), lossOne))
	}
	r.LossQ20 += share>>4 - r.LossQ20>>4
	if r.LossQ20 < r.BaseLossQ20 {
		r.BaseLossQ20 = r.LossQ20
	} else {
		r.BaseLossQ20 += (r.LossQ20 - r.BaseLossQ20) >> 5
	}
}

// lossCut is the decrease for loss in 1/1024, 0 = none, at a queueing delay of q.
func (p *Params) lossCut(r *Regs, q, d, e int64) uint64 {
	full := uint64(p.LossCutQ10)
	loss, base := r.LossQ20, min(r.BaseLossQ20, lossHeavy/2)
	if q > d || loss >= lossHeavy || r.NoFeedback >= lossBlind {
		return full
	}
	var cut uint64
	if q > e {
		cut = full * uint64(q-e) / uint64(d-e)
	}
	if loss > 2*base+lossFree {
		cut = max(cut, uint64(loss-base)>>11)
	}
	return min(cut, full)
}
