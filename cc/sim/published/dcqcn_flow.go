// SPDX-License-Identifier: Apache-2.0

package published

// This file is DCQCN's reaction point and notification point (Zhu et al.,
// SIGCOMM 2015) as pure state machines, for comparison with the product's own
// policies. It uses floats, keeps no clock and starts no goroutine: every event
// takes the time it happens at, in nanoseconds from any origin. Rates are bits
// per second.
//
// Two sets of parameters exist in the literature and both are here: DCQCNPaper, the
// algorithm and timers of the SIGCOMM text, and DCQCNConnectX, what Mellanox's NICs do
// and the HPCC artefact (alibaba-edu/High-Precision-Congestion-Control) simulates,
// which is what published comparisons ran.

import "math"

// DCQCNFlow is the reaction point of one flow.
type DCQCNFlow struct {
	p       *DCQCNParams
	rate    float64 // RC
	target  float64 // RT
	alpha   float64
	started bool // a first CNP came; before that nothing moves

	alphaAt    int64 // end of the running alpha period
	alphaCNP   bool  // a CNP came in it (CutNs > 0)
	cutAt      int64 // CutNs > 0: next look
	cutCNP     bool  // a CNP came since the last look
	incrAt     int64
	timeSteps  int // increases by timer since the last cut
	byteSteps  int
	bytesSince int64
}

// NewDCQCNFlow makes a flow at line rate. p is shared and must not change.
func NewDCQCNFlow(p *DCQCNParams) *DCQCNFlow {
	f := &DCQCNFlow{}
	f.Reset(p)
	return f
}

// Reset makes f a new flow.
func (f *DCQCNFlow) Reset(p *DCQCNParams) {
	*f = DCQCNFlow{p: p, rate: p.LineBps, target: p.LineBps, alpha: 1}
}

// Rate is the rate to send at, bits per second.
func (f *DCQCNFlow) Rate() float64 { return f.rate }

// Target is the rate that recovery aims at.
func (f *DCQCNFlow) Target() float64 { return f.target }

// Alpha is the estimate of congestion, 0 to 1, as of the last event.
func (f *DCQCNFlow) Alpha() float64 { return f.alpha }

// Timer is when Expire must be called, Never if it need not be.
func (f *DCQCNFlow) Timer() int64 {
	switch {
	case !f.started:
		return Never
	case f.p.CutNs > 0 && f.cutCNP:
		return min(f.cutAt, f.incrTimer())
	default:
		return f.incrTimer()
	}
}

// incrTimer spares the simulator increases that have nothing left to raise.
func (f *DCQCNFlow) incrTimer() int64 {
	if f.rate >= f.p.LineBps && f.target >= f.p.LineBps {
		return Never
	}
	return f.incrAt
}

// CNP takes a congestion notification.
func (f *DCQCNFlow) CNP(now int64) {
	f.Expire(now)
	if f.p.CutNs == 0 {
		f.cnpPaper(now)
		return
	}
	if !f.started {
		f.started = true
		f.alpha = 1
		f.alphaAt = now + f.p.AlphaNs
		f.cutAt = now + f.p.CutNs
		f.cutCNP = true
		f.incrAt = Never
		f.target = f.rate
		return
	}
	f.alphaCNP = true
	if !f.cutCNP && f.cutAt <= now {
		f.cutAt += (now - f.cutAt + f.p.CutNs) / f.p.CutNs * f.p.CutNs
	}
	f.cutCNP = true
}

// cnpPaper is the text's: cut, then count the CNP in alpha.
func (f *DCQCNFlow) cnpPaper(now int64) {
	p := f.p
	f.started = true
	f.target = f.rate
	f.rate = max(p.MinBps, f.rate*(1-f.alpha/2))
	f.alpha = (1-p.G)*f.alpha + p.G
	f.alphaAt = now + p.AlphaNs
	f.restartIncrease(now)
}

func (f *DCQCNFlow) restartIncrease(now int64) {
	f.incrAt = now + f.p.IncrNs
	f.timeSteps, f.byteSteps, f.bytesSince = 0, 0, 0
}

// Sent takes bytes sent: the byte counter raises too.
func (f *DCQCNFlow) Sent(now int64, bytes int) {
	if !f.started || f.p.IncrBytes == 0 {
		return
	}
	f.bytesSince += int64(bytes)
	for f.bytesSince >= f.p.IncrBytes {
		f.bytesSince -= f.p.IncrBytes
		f.byteSteps++
		f.increase()
	}
}

// Expire brings the flow up to now: alpha periods, looks for CNPs and increases
// that ended at or before now, in the order of their times.
func (f *DCQCNFlow) Expire(now int64) {
	if !f.started {
		return
	}
	for {
		next := f.incrAt
		if f.cutCNP {
			next = min(next, f.cutAt)
		}
		if next > now {
			break
		}
		f.decay(next)
		if f.cutCNP && f.cutAt == next {
			f.cut(next)
			continue
		}
		f.incrAt += f.p.IncrNs
		if f.rate >= f.p.LineBps && f.target >= f.p.LineBps {
			f.incrAt += max(0, now-f.incrAt) / f.p.IncrNs * f.p.IncrNs
		}
		if f.p.CutNs > 0 {
			f.increase()
			f.timeSteps++
		} else {
			f.timeSteps++
			f.increase()
		}
	}
	f.decay(now)
}

// cut is ConnectX's: a CNP came since the last look.
func (f *DCQCNFlow) cut(now int64) {
	p := f.p
	if p.ClampTarget || f.timeSteps != 0 {
		f.target = f.rate
	}
	f.rate = max(p.MinBps, f.rate*(1-f.alpha/2))
	f.cutCNP = false
	f.cutAt = now + p.CutNs
	f.restartIncrease(now)
}

// decay ends the alpha periods up to now; only the first can have seen a CNP.
func (f *DCQCNFlow) decay(now int64) {
	if f.alphaAt > now {
		return
	}
	n := 1 + (now-f.alphaAt)/f.p.AlphaNs
	f.alphaAt += n * f.p.AlphaNs
	if f.alphaCNP {
		f.alphaCNP = false
		f.alpha = (1-f.p.G)*f.alpha + f.p.G
		n--
	}
	switch n {
	case 0:
	case 1:
		f.alpha *= 1 - f.p.G
	default:
		f.alpha *= math.Pow(1-f.p.G, float64(n))
	}
}

// increase is one step: fast recovery halves the distance to the target, then
// the target rises, by more once both counters are past F.
func (f *DCQCNFlow) increase() {
	p := f.p
	if p.CutNs > 0 {
		switch {
		case f.timeSteps < p.Stages:
		case f.timeSteps == p.Stages:
			f.target += p.AIBps
		default:
			f.target += p.HAIBps
		}
	} else {
		switch {
		case max(f.timeSteps, f.byteSteps) <= p.Stages:
		case min(f.timeSteps, f.byteSteps) > p.Stages:
			f.target += p.HAIBps
		default:
			f.target += p.AIBps
		}
	}
	f.target = min(f.target, p.LineBps)
	f.rate = min((f.rate+f.target)/2, p.LineBps)
}

// DCQCNNotifier is the notification point of one flow: which CE marks become CNPs.
type DCQCNNotifier struct {
	sent bool
	last int64
}

// CE takes a marked packet and says whether to send a CNP for it.
func (n *DCQCNNotifier) CE(p *DCQCNParams, now int64) bool {
	if n.sent && now-n.last < p.CNPGapNs {
		return false
	}
	n.sent, n.last = true, now
	return true
}
