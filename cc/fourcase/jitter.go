// SPDX-License-Identifier: Apache-2.0

package fourcase

// Jitter is delay that no queue of ours makes. It comes in two kinds.
//
// Hosts that do not run now and then make delays jump: one decision is far above
// the target, the next is back at the baseline. noise learns their size.
//
// Links and hosts that delay every packet by another time make the delay swing, by
// less than that. Where packets come seldom, each has its own delay, and the least
// of a window is as good as none. Where they come close together they keep their
// order, each waits for the slowest before it, and even the least of a window stays
// far above the baseline: a queue that no cut drains. Only what the way back has as well
// tells it from one of ours. While the delay swings, that much is common to both
// directions and not our doing. Without swings it is not believed: two queues, one on each
// way, are no reason to raise.
const (
	jitterMax   = 100_000_000 // bounds what is taken for jitter, nanoseconds
	swingRise   = 3           // a larger swing counts for 1/2^swingRise ...
	swingFall   = 6           // ... and a smaller one, or none, for 1/2^swingFall
	swingBand   = 6           // swings up to e/2^swingBand are those of any queue
	commonSwing = 7           // beyond it the common part is believed up to 2^commonSwing of them
	commonShift = 3           // and smoothed
)

// noise learns from the decision that was just noted what of the delay is jitter and
// returns the levels with it. before is the excess at the decision before.
//
// One jump adds little, a series of them doubles and doubles: traffic that comes and
// goes is no series.
func (r *Regs) noise(before, q, d, e int64) (int64, int64) {
	jitter := int64(r.JitterNs)
	jitter -= jitter >> 6
	if before > 4*d && q <= e+jitter>>2 && before > jitter {
		jitter += min(before-jitter, jitter+d) >> 1
	}
	jitter = min(jitter, jitterMax)
	r.JitterNs = uint32(jitter)
	return d + jitter, e + jitter>>2
}

// leftOut is what of the excess is left out of account: the part that both directions
// have, and one swing. What is small against the target D needs none of that.
func (r *Regs) leftOut(d int64) int64 {
	if common := int64(r.CommonNs); common > d>>1 {
		return common + int64(r.SwingNs)
	}
	return 0
}

// learnCommon learns how much of the excess both directions have while it swings. trend
// is the change of the excess at the decision before.
//
// A swing is a growth and then a fall, in decisions next to each other, of the fall what our
// last cut does not explain. A queue that is controlled turns slowly: where it
// does, it changes little from one decision to the next. Queues of many that start at once
// swing widely but once; so a swing counts up to a few times those before it.
func (r *Regs) learnCommon(p *Params, trend, d, e int64, elapsed uint64) {
	swing, common := int64(r.SwingNs), int64(r.CommonNs)
	var peak int64
	if trend > 0 && r.DTxNs < 0 {
		cut := int64(min(elapsed, qLimit) * uint64(r.CutQ10) >> 10)
		peak = min(trend, max(-r.DTxNs-cut-cut>>2, 0), 4*swing+d, int64(p.TargetMaxNs>>1), jitterMax)
	}
	if peak > swing {
		swing += (peak - swing) >> swingRise
	} else {
		swing -= (swing - peak) >> swingFall
	}
	most := min(max(swing-e>>swingBand, 0)<<commonSwing, max(3*int64(p.TargetMaxNs)-int64(r.JitterNs), 0), jitterMax)
	common += (min(max(r.QRxNs, 0), most) - common) >> commonShift
	r.SwingNs, r.CommonNs = uint32(swing), uint32(common)
}
