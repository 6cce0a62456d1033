// SPDX-License-Identifier: Apache-2.0

package published

// This file is Swift (Kumar et al., SIGCOMM 2020), a congestion window from
// the distance of the delay to a target that scales with hops and with the
// window, as a pure state machine for comparison with the product's own policies.
// It uses floats and keeps no clock. Times are nanoseconds, windows packets.
//
// Google published the algorithm and not its parameters. SwiftDefault takes the
// values uet-htsim calls its guesses for what does not depend on the network, and
// scales the delays to the unloaded round trip; see SwiftDefault.

import (
	"fmt"
	"math"
)

// SwiftParams are Swift's parameters.
type SwiftParams struct {
	BaseTargetNs int64   // target delay at 0 hops and a wide window
	HopNs        int64   // h: more target per hop
	FSRangeNs    int64   // most that flow scaling adds
	FSMinCwnd    float64 // packets: at or below, flow scaling adds FSRangeNs
	FSMaxCwnd    float64 // packets: at or above, it adds nothing
	AI           float64 // packets per round trip
	Beta         float64 // gain of the proportional cut
	MaxMDF       float64 // most that one cut takes
	MinCwnd      float64 // packets; below 1 the flow is paced
	MaxCwnd      float64 // packets
	InitialCwnd  float64 // packets
	RetxReset    int     // timeouts in a row that bring cwnd to MinCwnd
}

// SwiftDefault are parameters for paths of baseRTTNs without queues, full packets
// included, and a bandwidth-delay product of bdpPackets: the target is 5/4 of the
// round trip, flow scaling adds up to one round trip between 0.1 and 100 packets,
// a flow starts at one bandwidth-delay product, so that all schemes of the
// simulator have the same first round trip.
func SwiftDefault(baseRTTNs int64, bdpPackets float64) SwiftParams {
	return SwiftParams{
		BaseTargetNs: baseRTTNs * 5 / 4,
		FSRangeNs:    baseRTTNs,
		FSMinCwnd:    0.1,
		FSMaxCwnd:    100,
		AI:           1,
		Beta:         0.8,
		MaxMDF:       0.5,
		MinCwnd:      0.001,
		MaxCwnd:      max(4*bdpPackets, 1),
		InitialCwnd:  max(bdpPackets, 1),
		RetxReset:    5,
	}
}

// Validate tells what is wrong with p, if anything.
func (p *SwiftParams) Validate() error {
	switch {
	case p.BaseTargetNs <= 0 || p.HopNs < 0 || p.FSRangeNs < 0:
		return fmt.Errorf("swift: base target %d ns must be positive, hop %d ns and flow scaling range %d ns not negative", p.BaseTargetNs, p.HopNs, p.FSRangeNs)
	case p.FSMinCwnd <= 0 || p.FSMaxCwnd <= p.FSMinCwnd:
		return fmt.Errorf("swift: flow scaling between %g and %g packets: the second must be larger, both positive", p.FSMinCwnd, p.FSMaxCwnd)
	case p.MinCwnd <= 0 || p.MaxCwnd <= p.MinCwnd:
		return fmt.Errorf("swift: window between %g and %g packets: the second must be larger, both positive", p.MinCwnd, p.MaxCwnd)
	case p.AI <= 0 || p.Beta <= 0 || p.Beta > 1 || p.MaxMDF <= 0 || p.MaxMDF >= 1:
		return fmt.Errorf("swift: ai %g must be positive, beta %g above 0 and at most 1, max_mdf %g between 0 and 1", p.AI, p.Beta, p.MaxMDF)
	}
	return nil
}

// Target is the target delay for a window of cwnd packets over hops hops
// (section 3.5 of the paper): base + hops*h + clip(alpha/sqrt(cwnd) + beta).
func (p *SwiftParams) Target(cwnd float64, hops int) int64 {
	inv := 1/math.Sqrt(p.FSMinCwnd) - 1/math.Sqrt(p.FSMaxCwnd)
	alpha := float64(p.FSRangeNs) / inv
	scale := alpha * (1/math.Sqrt(cwnd) - 1/math.Sqrt(p.FSMaxCwnd))
	scale = min(max(scale, 0), float64(p.FSRangeNs))
	return p.BaseTargetNs + int64(hops)*p.HopNs + int64(scale)
}

// SwiftFlow is one flow's state.
type SwiftFlow struct {
	p       *SwiftParams
	cwnd    float64
	rtt     int64 // last RTT, 0 = none
	lastCut int64
	cutOnce bool
	retx    int
}

// NewSwiftFlow makes a flow. p is shared and must not change.
func NewSwiftFlow(p *SwiftParams) *SwiftFlow {
	f := &SwiftFlow{}
	f.Reset(p)
	return f
}

// Reset makes f a new flow.
func (f *SwiftFlow) Reset(p *SwiftParams) { *f = SwiftFlow{p: p, cwnd: p.InitialCwnd} }

// Cwnd is the window in packets. Below 1, one packet goes per RTT/Cwnd.
func (f *SwiftFlow) Cwnd() float64 { return f.cwnd }

// PacingGap is the time between packets when the window is below one packet, 0 if
// it is not or no RTT is known.
func (f *SwiftFlow) PacingGap() int64 {
	if f.cwnd >= 1 {
		return 0
	}
	return int64(float64(f.rtt) / f.cwnd)
}

// Ack takes an acknowledgement of acked packets over hops hops whose delay was
// delayNs. rttNs paces cuts: at most one per round trip.
func (f *SwiftFlow) Ack(now, delayNs, rttNs int64, acked float64, hops int) {
	f.retx = 0
	f.rtt = rttNs
	target := f.p.Target(f.cwnd, hops)
	switch {
	case delayNs < target && f.cwnd >= 1:
		f.cwnd += f.p.AI * acked / f.cwnd
	case delayNs < target:
		f.cwnd += f.p.AI * acked
	case f.mayCut(now):
		over := float64(delayNs-target) / float64(delayNs)
		f.cut(now, max(1-f.p.Beta*over, 1-f.p.MaxMDF))
	}
	f.clamp()
}

// Loss takes a loss found by acknowledgements: the deepest cut, once per RTT.
func (f *SwiftFlow) Loss(now int64) {
	f.retx = 0
	if f.mayCut(now) {
		f.cut(now, 1-f.p.MaxMDF)
	}
	f.clamp()
}

// Timeout takes a retransmission timeout.
func (f *SwiftFlow) Timeout(now int64) {
	f.retx++
	switch {
	case f.retx >= f.p.RetxReset:
		f.cwnd = f.p.MinCwnd
	case f.mayCut(now):
		f.cut(now, 1-f.p.MaxMDF)
	}
	f.clamp()
}

func (f *SwiftFlow) mayCut(now int64) bool { return !f.cutOnce || now-f.lastCut >= f.rtt }

func (f *SwiftFlow) cut(now int64, factor float64) {
	f.cutOnce, f.lastCut = true, now
	f.cwnd *= factor
}

func (f *SwiftFlow) clamp() { f.cwnd = min(max(f.cwnd, f.p.MinCwnd), f.p.MaxCwnd) }
