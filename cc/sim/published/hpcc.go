// SPDX-License-Identifier: Apache-2.0

package published

// This file is HPCC (Li et al., SIGCOMM 2019), a window from in-band telemetry
// of every link of the path, as a pure state machine for comparison with the
// product's own policies: Algorithm 1 of the paper. It uses floats and keeps no
// clock. Windows are bytes, rates bits per second, times nanoseconds.

import "fmt"

// HPCCMaxHops is how many links a path may have.
const HPCCMaxHops = 8

// HPCCParams are HPCC's parameters.
type HPCCParams struct {
	LineBps   float64 // the sender's link: a flow starts with a window of LineBps*T
	BaseRTTNs int64   // T: a little above the largest base RTT
	Eta       float64 // target utilisation
	MaxStage  int     // additive rounds before a multiplicative one
	AIBps     float64 // W_AI/T
	MinBps    float64
}

// HPCCDefault are the values of the paper's simulations: eta 0.95 and a W_AI of 80
// bytes per 13 us at 100 Gb/s. MaxStage is 0: its authors say on the project's page
// that the 5 of the text is a mistake as far as the simulations go.
func HPCCDefault(lineBps float64, baseRTTNs int64) HPCCParams {
	return HPCCParams{
		LineBps:   lineBps,
		BaseRTTNs: baseRTTNs,
		Eta:       0.95,
		MaxStage:  0,
		AIBps:     lineBps / 2000,
		MinBps:    lineBps / 1000,
	}
}

// Validate tells what is wrong with p, if anything.
func (p *HPCCParams) Validate() error {
	switch {
	case p.LineBps <= 0 || p.BaseRTTNs <= 0:
		return fmt.Errorf("hpcc: line rate %g bit/s and base round trip %d ns: must be positive", p.LineBps, p.BaseRTTNs)
	case p.Eta <= 0 || p.Eta > 1:
		return fmt.Errorf("hpcc: eta %g: must be above 0 and at most 1", p.Eta)
	case p.MaxStage < 0 || p.AIBps < 0:
		return fmt.Errorf("hpcc: max stage %d and additive step %g bit/s: must not be negative", p.MaxStage, p.AIBps)
	case p.MinBps <= 0 || p.MinBps > p.LineBps:
		return fmt.Errorf("hpcc: least rate %g bit/s: must be above 0 and at most the line rate", p.MinBps)
	}
	return nil
}

// bytesPerRTT is a rate's window.
func (p *HPCCParams) bytesPerRTT(bps float64) float64 { return bps / 8e9 * float64(p.BaseRTTNs) }

// HPCCHop is what a switch writes about a link as the packet leaves for it.
type HPCCHop struct {
	QueueBytes int64
	TxBytes    uint64 // sent so far
	TsNs       int64  // time by the switch's clock
	RateBps    uint64
}

// HPCCFlow is one flow's state.
type HPCCFlow struct {
	p       *HPCCParams
	window  float64 // W
	ref     float64 // Wc, the window of a round trip ago
	u       float64 // U, normalised bytes in flight
	stage   int
	nextSeq uint64
	hops    int
	last    [HPCCMaxHops]HPCCHop
}

// NewHPCCFlow makes a flow with a full window. p is shared and must not change.
func NewHPCCFlow(p *HPCCParams) *HPCCFlow {
	f := &HPCCFlow{}
	f.Reset(p)
	return f
}

// Reset makes f a new flow.
func (f *HPCCFlow) Reset(p *HPCCParams) {
	w := p.bytesPerRTT(p.LineBps)
	*f = HPCCFlow{p: p, window: w, ref: w, u: 1}
}

// Window is how many bytes, headers included, may be in flight.
func (f *HPCCFlow) Window() float64 { return f.window }

// Rate is the pacing rate W/T.
func (f *HPCCFlow) Rate() float64 { return f.window * 8e9 / float64(f.p.BaseRTTNs) }

// U is the estimate of the path's fullest link, 1 = line rate and no queue.
func (f *HPCCFlow) U() float64 { return f.u }

// Ack takes an acknowledgement of everything below acked with the telemetry of
// its data packet, when sent is what will be sent next. Hops beyond HPCCMaxHops are
// not looked at.
func (f *HPCCFlow) Ack(hops []HPCCHop, acked, sent uint64) {
	hops = hops[:min(len(hops), HPCCMaxHops)]
	if len(hops) != f.hops { // the first, or another path
		f.hops = copy(f.last[:], hops)
		f.nextSeq = max(f.nextSeq, sent)
		return
	}
	if !f.measure(hops) {
		return
	}
	round := acked > f.nextSeq
	f.compute(round)
	if round {
		f.nextSeq = max(f.nextSeq, sent)
	}
}

// measure is MeasureInflight: the fullest link since the last ACK into U. It
// reports false if no time has passed at any of them.
func (f *HPCCFlow) measure(hops []HPCCHop) bool {
	t := float64(f.p.BaseRTTNs)
	u, tau := -1.0, 0.0
	for i, h := range hops {
		l := &f.last[i]
		dt := float64(h.TsNs - l.TsNs)
		if dt <= 0 {
			continue
		}
		rate := float64(h.RateBps) / 8e9 // bytes/ns
		q := float64(min(h.QueueBytes, l.QueueBytes))
		if v := q/(rate*t) + float64(h.TxBytes-l.TxBytes)/dt/rate; v > u {
			u, tau = v, dt
		}
	}
	copy(f.last[:], hops)
	if tau == 0 {
		return false
	}
	w := min(tau, t) / t
	f.u = (1-w)*f.u + w*u
	return true
}

// compute is ComputeWind. Between rounds the window follows U from the reference
// of the last round, so that no congestion is reacted to twice.
func (f *HPCCFlow) compute(round bool) {
	p := f.p
	stage := 0
	w := f.ref + p.bytesPerRTT(p.AIBps)
	if f.u >= p.Eta || f.stage >= p.MaxStage {
		w = f.ref*p.Eta/f.u + p.bytesPerRTT(p.AIBps)
	} else {
		stage = f.stage + 1
	}
	f.window = min(max(w, p.bytesPerRTT(p.MinBps)), p.bytesPerRTT(p.LineBps))
	if round {
		f.ref, f.stage = f.window, stage
	}
}
