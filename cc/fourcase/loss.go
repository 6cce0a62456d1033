// SPDX-License-Identifier: Apache-2.0

package fourcase

// Loss alone does not say congestion: cables, full receive rings and policers
// lose packets too. A queue that overflows has grown before, so the cut follows
// the excess delay, and where there is none, how much of what was sent is lost:
//
//   - up to lossFree nothing happens;
//   - beyond it half of the share that is lost is cut, unless the same share has
//     been lost for a while whatever we cut (its base, at most lossHeavy);
//   - from lossHeavy on, or when losses go on and nothing is heard any more, the
//     cut is the full one.
const (
	lossOne   = 1 << 20
	lossFree  = lossOne / 64 // 1.6 %
	lossHeavy = lossOne / 10
	lossBlind = 2 // windows
)

// noteLoss takes the window's loss into the smoothed shares. The base falls with
// the share at once and rises after it slowly: loss that our own rate makes goes
// to nothing with each cut, and so does the base.
func (r *Regs) noteLoss(s *Sample, feedback bool) {
	sent := uint64(s.Samples)
	if s.Sent != 0 {
		sent = s.Sent - r.SentPackets
		if r.SentPackets == 0 || sent > 1<<31 {
			sent = 1 << 8 // counted from elsewhere
		}
		r.SentPackets = s.Sent
	}
	lost := uint64(s.Loss) + uint64(r.OpenLost)
	r.OpenLost = 0
	switch {
	case feedback:
		r.Blind = 0
	case s.Loss > 0:
		r.Blind = min(r.Blind+1, lossBlind)
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

// lossCut is the cut for loss in 1/1024, 0 = none, at an excess of q.
func (p *Params) lossCut(r *Regs, q, d, e int64) uint64 {
	full := uint64(p.LossCutQ10)
	loss, base := r.LossQ20, min(r.BaseLossQ20, lossHeavy/2)
	if q > d || loss >= lossHeavy || r.Blind >= lossBlind {
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
