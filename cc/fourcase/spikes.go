// SPDX-License-Identifier: Apache-2.0

package fourcase

// jitterMax bounds Regs.SpikeNs, OscillationNs and CommonModeNs: 100 ms, in nanoseconds.
const jitterMax = 100_000_000

// updateSpikes estimates the size of delay spikes (Regs.SpikeNs) and returns D and e with
// the estimate added: D + spikes and e + spikes/4.
//
// A delay spike is a queueing delay above 4D at one decision (before) that is at most
// e + spikes/4 at the next one (q).
//
//	spikes := spikes - spikes/64                                    at each decision
//	spikes := spikes + min(before - spikes, spikes + D) / 2         after a spike above it
//
// Unit: nanoseconds. Range: 0 to jitterMax.
//
// Reason: a host that is not scheduled for milliseconds delays all packets of a window. The
// queueing delay is then far above the target, and no decrease makes it smaller. One spike
// adds at most half of D, and each further one at most half of D and half of the estimate, so
// traffic of others that starts and stops once raises the target little.
//
// Needed by TestFluidNoise ("emulated hosts"): without it a link of 100 Mbit/s is used to less
// than half. TestSpikesFormula checks the formula.
func (r *Regs) updateSpikes(before, q, d, e int64) (target, band int64) {
	spikes := int64(r.SpikeNs)
	spikes -= spikes >> 6
	if before > 4*d && q <= e+spikes>>2 && before > spikes {
		spikes += min(before-spikes, spikes+d) >> 1
	}
	spikes = min(spikes, jitterMax)
	r.SpikeNs = uint32(spikes)
	return d + spikes, e + spikes>>2
}
