// SPDX-License-Identifier: Apache-2.0

package published

// This file is DCTCP (Alizadeh et al., SIGCOMM 2010) as a NIC would do it and
// as the HPCC paper compares with it: no slow start, no delayed ACKs, a rate that
// also scales the window. It is a pure state machine, uses floats and keeps no
// clock. Rates are bits per second.

import "fmt"

// DCTCPParams are DCTCP's parameters.
type DCTCPParams struct {
	LineBps float64 // line rate, at which a flow starts and which it never exceeds
	MinBps  float64
	G       float64 // weight of a round's share of marks
	AIBps   float64 // additive step per round trip
}

// DCTCPDefault is g 1/16 and one packet of packetBytes per baseRTTNs.
func DCTCPDefault(lineBps float64, baseRTTNs int64, packetBytes int) DCTCPParams {
	return DCTCPParams{
		LineBps: lineBps,
		MinBps:  lineBps / 100,
		G:       1.0 / 16,
		AIBps:   float64(packetBytes) * 8e9 / float64(baseRTTNs),
	}
}

// Validate tells what is wrong with p, if anything.
func (p *DCTCPParams) Validate() error {
	switch {
	case p.LineBps <= 0 || p.MinBps <= 0 || p.MinBps > p.LineBps:
		return fmt.Errorf("dctcp: rates from %g to %g bit/s: must be positive, the line's the larger", p.MinBps, p.LineBps)
	case p.G <= 0 || p.G > 1 || p.AIBps < 0:
		return fmt.Errorf("dctcp: g %g: must be above 0 and at most 1; additive step %g bit/s: not negative", p.G, p.AIBps)
	}
	return nil
}

// DCTCPFlow is one flow's state. Sequence numbers count packets.
type DCTCPFlow struct {
	p       *DCTCPParams
	rate    float64
	alpha   float64
	marked  uint64 // packets marked in this round
	begun   uint64 // first packet of this round
	nextSeq uint64 // an acknowledgement beyond this ends the round
	started bool
	cutEnd  uint64 // no second cut until this is acknowledged
	inCut   bool
}

// NewDCTCPFlow makes a flow at line rate. p is shared and must not change.
func NewDCTCPFlow(p *DCTCPParams) *DCTCPFlow {
	f := &DCTCPFlow{}
	f.Reset(p)
	return f
}

// Reset makes f a new flow.
func (f *DCTCPFlow) Reset(p *DCTCPParams) { *f = DCTCPFlow{p: p, rate: p.LineBps, alpha: 1} }

// Rate is the rate to send at, bits per second.
func (f *DCTCPFlow) Rate() float64 { return f.rate }

// Alpha is the smoothed share of marked packets.
func (f *DCTCPFlow) Alpha() float64 { return f.alpha }

// Ack takes an acknowledgement of all packets below acked, of which marked newly
// carried CE, when sent is the packet to be sent next.
func (f *DCTCPFlow) Ack(marked, acked, sent uint64) {
	f.marked += marked
	round := acked > f.nextSeq
	if round {
		if f.started {
			share := min(1, float64(f.marked)/float64(max(1, acked-f.begun)))
			f.alpha = (1-f.p.G)*f.alpha + f.p.G*share
			f.marked = 0
		}
		f.started = true
		f.begun, f.nextSeq = acked, max(f.nextSeq, sent)
	}
	if f.inCut && acked > f.cutEnd {
		f.inCut = false
	}
	switch {
	case f.inCut:
	case marked > 0:
		f.rate = max(f.p.MinBps, f.rate*(1-f.alpha/2))
		f.inCut, f.cutEnd = true, sent
	case round:
		f.rate = min(f.p.LineBps, f.rate+f.p.AIBps)
	}
}
