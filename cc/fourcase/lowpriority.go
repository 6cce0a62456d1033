// SPDX-License-Identifier: Apache-2.0

package fourcase

// ParamsLowPriority are ParamsFor, windowed, for a low-priority class: switches serve it
// after other data. The data of large flows is in it, if that of small flows goes first.
//
// Most of the queueing delay is then due to data of a higher priority. It changes within a
// few RTTs, independent of this sender, and meanwhile the window limits the bytes in flight.
// A decision therefore decreases the rate by an eighth at most: with more, the rate would be
// a hundredth of the share when the other data is sent, and a large flow would need most of
// its time to recover. For the same reason increases begin larger and accelerate sooner, and
// they stop at a queue of three quarters of an RTT instead of half of one: only large flows
// wait in it.
//
// The cost is fairness: fast and slow flows decrease alike more often. Increases of a tenth
// and more do not shorten completion times, and make shares unequal where clocks drift.
//
// Where WindowBytes is not enforced, or all data shares one queue, use ParamsFor.
func ParamsLowPriority(linkBps, rttNs uint64) Params {
	p := ParamsFor(linkBps, rttNs, true)
	p.TargetNs = min(p.TargetNs*3/2, p.TargetMaxNs)
	p.MaxCutQ10 = one / 8
	p.RaiseQ10 = one / 17
	p.MaxRaiseQ10 = one / 2
	p.RaiseAfter = 2
	return p
}
