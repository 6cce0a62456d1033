// SPDX-License-Identifier: Apache-2.0

package fourcase

const (
	oscillationBand  = 6 // oscillations up to e/2^oscillationBand are those of any queue
	commonModeFactor = 7 // common-mode jitter is at most 2^commonModeFactor times what is above that
	commonModeShift  = 3 // weight of a sample in the estimate: 1/2^commonModeShift
)

// adaptCommonMode estimates the common-mode jitter (Regs.CommonModeNs): the delay above the base
// delay that the forward and the reverse path have at the same time. It uses the estimates of
// oscillations and, of the decision before, of delay spikes.
//
//	most   := min(128 x max(oscillation - e/64, 0), max(3 x TargetMaxNs - spikes, 0), jitterMax)
//	common := common + (min(max(q_rx, 0), most) - common)/8
//
// Unit: nanoseconds. Range: 0 to jitterMax.
//
// Reason: packets that follow each other closely keep their order, so each waits for the
// slowest one before it. Even the smallest delay of a window then stays above the base delay,
// like a queue that no decrease drains. Only the reverse path distinguishes it from a queue of
// this sender: it has the same delay. Without oscillations two queues, one in each direction,
// would look the same, so the size of the oscillations bounds the estimate.
//
// Needed by TestCommonMode ("both directions, oscillating": the rate would fall to the floor).
// TestCommonModeFormula checks the formula.
func (r *Regs) adaptCommonMode(p *Params, e int64) {
	oscillation, common := int64(r.OscillationNs), int64(r.CommonModeNs)
	most := min(max(oscillation-e>>oscillationBand, 0)<<commonModeFactor, max(3*int64(p.TargetMaxNs)-int64(r.SpikeNs), 0), jitterMax)
	common += (min(max(r.QueueingRxNs, 0), most) - common) >> commonModeShift
	r.CommonModeNs = uint32(common)
}

// ignoredDelay is the part of the queueing delay that is not taken for a queue, in
// nanoseconds: common-mode jitter and one oscillation. Up to half of the target D it is 0,
// as so little needs no correction.
func (r *Regs) ignoredDelay(d int64) int64 {
	if common := int64(r.CommonModeNs); common > d>>1 {
		return common + int64(r.OscillationNs)
	}
	return 0
}
