// SPDX-License-Identifier: Apache-2.0

package fourcase

import "math"

// The open-loop law decides the rate of data that nothing answers: READ responses, UC and
// UD towards a peer that does not stamp, or whose packets have no room for the option.
// There is no delay to decide by, and missing feedback means nothing. Losses may be known:
// the requester of a READ requests lost data again, and a NIC may send CNPs.
//
// A decision is made every openInterval, by the share of the packets sent since the last
// one that was reported lost. A share that a decrease does not change is not caused by
// our rate (bad cables): it becomes the base, up to lossHeavy/2, and further
// decreases are for what exceeds it. Otherwise the rate grows by 1/2^openStep, twice that
// with the next decision, and so on to twice the rate: from min_rate_bps, a thousandth of
// the link, that takes 15 decisions. The rate never goes below min_rate_bps.
const (
	openInterval = 100_000_000 // nanoseconds
	openStep     = 6
)

// openLoop is one step of the open-loop law on a window in which nothing can be answered.
func (r *Regs) openLoop(p *Params, s *Sample, now uint64) Decision {
	sent := s.Sent - r.SentPackets
	lost := min(uint64(r.OpenLost)+uint64(s.Loss), math.MaxUint16)
	if r.SentPackets == 0 || sent > 1<<31 { // counted from elsewhere
		r.SentPackets, r.OpenLost = s.Sent, 0
		return r.none(WhyNoFeedback)
	}
	if sent == 0 || now-r.DecidedNs < openInterval {
		r.OpenLost = uint16(lost)
		return r.none(WhyOpenWait)
	}
	r.SentPackets, r.OpenLost = s.Sent, 0
	excess := r.openShare(lost, sent)
	// The last delay is out of date, and so is the rate before the last decrease.
	r.State &^= StateTrend
	r.RateBeforeDecreaseBps, r.FloorPatience, r.NoFeedback = 0, 0, 0

	if excess > 0 {
		v := r.aboveFloor(p, Verdict{ActionLossCut, 0, rowOpenLoop, WhyOpenLoss})
		if v.Action == ActionHold { // at the lowest rate, so the rate does not cause this loss
			r.BaseLossQ20 = r.LossQ20
		}
		// One and a half times the share that was too much, so that the queue drains as well.
		cut := min(uint64(excess)*3>>11, uint64(p.LossCutQ10))
		d := r.decide(p, v, part(r.RateBps, cut), now)
		r.RateBeforeDecreaseBps = 0
		return d
	}
	v := Verdict{ActionRaise, 0, rowOpenLoop, WhyOpenRaise}
	by := max(r.RateBps>>(openStep-min(r.Increases, openStep)), 1)
	if r.RateBps < p.MinRateBps {
		by += p.MinRateBps - r.RateBps
	}
	if s.AppLimited {
		v, by = r.upToShare(s, v, by)
	}
	return r.decide(p, v, by, now)
}

// openShare updates the lost share and its base with the packets reported lost of those
// sent, and returns by how much the share exceeds the base, 0 = not at all. A single lost
// packet does not count: at a low rate it would be a large share.
func (r *Regs) openShare(lost, sent uint64) (excess uint32) {
	before := r.LossQ20
	share := uint32(min(max(lost, 1)-1, sent) * lossOne / sent)
	ineffective := r.Row == rowOpenLoop && r.Action == ActionLossCut && share > before-min(before, r.DecreaseQ10<<9)
	if ineffective || share < r.BaseLossQ20 {
		r.BaseLossQ20 = share
	}
	r.LossQ20 = share
	if base := min(r.BaseLossQ20, lossHeavy/2); share > 2*base+lossFree {
		return share - base
	}
	return 0
}

// aboveFloor turns a decrease that is not based on delay into a hold at MinRateBps and
// below: only a standing queue that was measured is a reason to go below that rate.
func (r *Regs) aboveFloor(p *Params, v Verdict) Verdict {
	if r.RateBps <= p.MinRateBps {
		v.Action, v.Why = ActionHold, WhyAtMin
	}
	return v
}

// upToShare limits an increase of a sender that did not use its rate to its even share.
func (r *Regs) upToShare(s *Sample, v Verdict, by uint64) (Verdict, uint64) {
	if r.RateBps >= s.ShareBps {
		v.Action, v.Why = ActionHold, WhyAppLimited
		return v, 0
	}
	return v, min(by, s.ShareBps-r.RateBps)
}
