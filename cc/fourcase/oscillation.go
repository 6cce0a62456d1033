// SPDX-License-Identifier: Apache-2.0

package fourcase

// A larger oscillation has a weight of 1/2^oscillationRise in the estimate, a smaller one, or
// none, 1/2^oscillationFall.
const (
	oscillationRise = 3
	oscillationFall = 6
)

// updateOscillation estimates the size of oscillations of the transmit time
// (Regs.OscillationNs). trend is the change of q_tx at the decision before, elapsed the time since
// then in nanoseconds.
//
// An oscillation is a growth of q_tx and then a fall, at consecutive decisions. The part of
// the fall that the last decrease explains does not count:
//
//	drained := 5/4 x elapsed x share of the rate that the last decision took away
//	peak    := min(trend, fall - drained, 4 x oscillation + D, TargetMaxNs/2, jitterMax), at least 0
//	oscillation   := oscillation + (peak - oscillation)/8 if peak > oscillation, else oscillation - (oscillation - peak)/64
//
// Unit: nanoseconds. Range: 0 to jitterMax.
//
// Reason: links and hosts that delay every packet by a different time make q_tx oscillate,
// while a queue that is controlled changes direction slowly. Flows that start at once make
// one wide oscillation; the bound 4 x oscillation + D keeps its weight small.
//
// Needed by TestCommonMode ("both directions, standing still": two queues are no jitter);
// TestOscillation checks the formula.
func (r *Regs) updateOscillation(p *Params, trend, d int64, elapsed uint64) {
	oscillation, peak := int64(r.OscillationNs), int64(0)
	if trend > 0 && r.TrendTxNs < 0 {
		drained := int64(min(elapsed, qLimit) * uint64(r.DecreaseQ10) >> 10)
		drained += drained >> 2
		peak = min(trend, max(-r.TrendTxNs-drained, 0), 4*oscillation+d, int64(p.TargetMaxNs>>1), jitterMax)
	}
	if peak > oscillation {
		oscillation += (peak - oscillation) >> oscillationRise
	} else {
		oscillation -= (oscillation - peak) >> oscillationFall
	}
	r.OscillationNs = uint32(oscillation)
}
