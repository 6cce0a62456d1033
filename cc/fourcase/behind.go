// SPDX-License-Identifier: Apache-2.0

package fourcase

// ParamsBehind are ParamsFor, windowed, for data that switches serve after other data:
// that of large flows, behind that of small ones.
//
// Most of the delay there is others' turn. It comes and goes within a few round trips,
// whatever this sender does, and while it lasts the window keeps what is under way to
// what it was. So a decision cuts by an eighth at most: with more the rate is at a
// hundredth of its share when the others are done, and a large flow spends most of its
// time on the way back. For the same reason raises begin larger and accelerate soon, and
// they stop at three quarters of a round trip of queue instead of half of one: only large
// flows wait in it.
//
// What that costs is fairness where it is hard: fast and slow flows cut alike more often.
// Raises of a tenth and more make completion times no shorter, and shares unequal where
// clocks drift.
//
// Without WindowBytes enforced, or where all share one queue, use ParamsFor.
func ParamsBehind(linkBps, rttNs uint64) Params {
	p := ParamsFor(linkBps, rttNs, true)
	p.TargetNs = min(p.TargetNs*3/2, p.TargetMaxNs)
	p.MaxCutQ10 = one / 8
	p.RaiseQ10 = one / 17
	p.MaxRaiseQ10 = one / 2
	p.RaiseAfter = 2
	return p
}
