// SPDX-License-Identifier: Apache-2.0

package published

// This file is TIMELY (Mittal et al., SIGCOMM 2015), rates from the gradient
// of the round-trip time, as a pure state machine for comparison with the
// product's own policies. It uses floats and keeps no clock. Rates are bits per
// second, times nanoseconds.

import "fmt"

// TimelyParams are TIMELY's parameters.
type TimelyParams struct {
	LineBps  float64 // line rate, which a flow never exceeds
	StartBps float64 // rate at which a flow starts, 0 = LineBps
	MinBps   float64
	TLowNs   int64   // RTT below which the increase is additive whatever the gradient
	THighNs  int64   // RTT above which there is a decrease whatever the gradient
	MinRTTNs int64   // RTT by which the gradient is normalised
	EWMA     float64 // weight of the newest difference
	Beta     float64 // decrease factor
	AIBps    float64 // delta
	HAIBps   float64 // delta in hyperactive increase
	HAIAfter int     // increases in a row before hyperactive increase

	// Segment > 0 decides for each so many sequence numbers acknowledged, as the
	// paper does at the completion of each segment of 16 to 64 kB. Then a faster
	// flow decides more often, and so also raises more. 0 decides once in a round
	// trip, as the HPCC artefact does.
	Segment uint64

	// HAIBelowTLow counts increases below TLow towards hyperactive increase, as
	// the HPCC artefact does; the paper's text does not.
	HAIBelowTLow bool
}

// TimelyDefault are the values of the paper, of footnote 4 of Zhu et al. (CoNEXT 2016)
// where it has none, and of the HPCC artefact for the steps: 10 and 50 Mb/s per
// 10 Gb/s of line, at least a hundredth of the line.
func TimelyDefault(lineBps float64) TimelyParams {
	return TimelyParams{
		LineBps:      lineBps,
		MinBps:       lineBps / 100,
		TLowNs:       50_000,
		THighNs:      500_000,
		MinRTTNs:     20_000,
		EWMA:         0.875,
		Beta:         0.8,
		AIBps:        10e6 * lineBps / 10e9,
		HAIBps:       50e6 * lineBps / 10e9,
		HAIAfter:     5,
		HAIBelowTLow: true,
	}
}

// Validate tells what is wrong with p, if anything.
func (p *TimelyParams) Validate() error {
	switch {
	case p.LineBps <= 0:
		return fmt.Errorf("timely: line rate %g bit/s: must be positive", p.LineBps)
	case p.MinBps <= 0 || p.MinBps > p.LineBps:
		return fmt.Errorf("timely: least rate %g bit/s: must be above 0 and at most the line rate", p.MinBps)
	case p.MinRTTNs <= 0 || p.TLowNs < 0 || p.THighNs <= p.TLowNs:
		return fmt.Errorf("timely: minimum RTT %d ns must be positive and t_high %d ns above t_low %d ns", p.MinRTTNs, p.THighNs, p.TLowNs)
	case p.EWMA <= 0 || p.EWMA > 1 || p.Beta <= 0 || p.Beta > 1:
		return fmt.Errorf("timely: ewma %g and beta %g: must be above 0 and at most 1", p.EWMA, p.Beta)
	}
	return nil
}

// TimelyFlow is one flow's state.
type TimelyFlow struct {
	p       *TimelyParams
	rate    float64
	diff    float64 // smoothed difference of successive RTTs, ns
	prev    int64   // RTT at the last decision
	primed  bool
	raises  int
	nextSeq uint64 // an acknowledgement beyond this ends a round
}

// NewTimelyFlow makes a flow at its start rate. p is shared and must not change.
func NewTimelyFlow(p *TimelyParams) *TimelyFlow {
	f := &TimelyFlow{}
	f.Reset(p)
	return f
}

// Reset makes f a new flow.
func (f *TimelyFlow) Reset(p *TimelyParams) {
	*f = TimelyFlow{p: p, rate: p.LineBps}
	if p.StartBps > 0 {
		f.rate = min(p.StartBps, p.LineBps)
	}
}

// Rate is the rate to send at, bits per second.
func (f *TimelyFlow) Rate() float64 { return f.rate }

// Ack takes an acknowledgement of all below acked, when sent is to be sent next.
// One in a round trip decides, the first beyond what had been sent at the last
// decision, or one for each Segment.
func (f *TimelyFlow) Ack(rttNs int64, acked, sent uint64) {
	if acked <= f.nextSeq {
		return
	}
	f.Round(rttNs)
	if f.p.Segment > 0 {
		sent = acked + f.p.Segment - 1
	}
	f.nextSeq = max(f.nextSeq, sent)
}

// Round decides on one RTT sample. The first only starts the gradient.
func (f *TimelyFlow) Round(rttNs int64) {
	if !f.primed {
		f.primed, f.prev = true, rttNs
		return
	}
	p := f.p
	f.diff = (1-p.EWMA)*f.diff + p.EWMA*float64(rttNs-f.prev)
	f.prev = rttNs
	gradient := f.diff / float64(p.MinRTTNs)
	switch {
	case rttNs < p.TLowNs:
		if !p.HAIBelowTLow {
			f.raises = 0
		}
		f.raise()
	case rttNs > p.THighNs:
		f.cut(1 - p.Beta*(1-float64(p.THighNs)/float64(rttNs)))
	case gradient <= 0:
		f.raise()
	default:
		f.cut(1 - p.Beta*gradient)
	}
}

func (f *TimelyFlow) raise() {
	step := f.p.AIBps
	if f.raises >= f.p.HAIAfter {
		step = f.p.HAIBps
	}
	f.raises++
	f.rate = min(f.p.LineBps, f.rate+step)
}

func (f *TimelyFlow) cut(factor float64) {
	f.raises = 0
	f.rate = max(f.p.MinBps, f.rate*factor)
}
