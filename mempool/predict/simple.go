// SPDX-License-Identifier: Apache-2.0

package predict

import "math"

// Simple is a predictor without a network. All of them predict one value for the next periods, in pages.
// A margin on top of it makes an allocation of the prediction.
type Simple interface {
	// Name is the name in `softroce-pool status`.
	Name() string
	// Observe adds the need of a period.
	Observe(need float64)
	// Predict is the centre of the need in the next periods.
	Predict() float64
}

// ewma predicts the exponentially weighted mean. With alpha 1 it is the newest need.
type ewma struct {
	Mean  smooth
	name  string
	alpha float64
}

func (p *ewma) Name() string      { return p.name }
func (p *ewma) Observe(n float64) { p.Mean.add(n, p.alpha) }
func (p *ewma) Predict() float64  { return p.Mean.value() }

// NewEWMA returns the exponentially weighted mean; alpha, above 0 and at most 1, is the weight of the newest need.
func NewEWMA(alpha float64) Simple { return &ewma{name: "ewma", alpha: alpha} }

// holt predicts a level and a damped trend (Holt-Winters without a season).
type holt struct {
	Level, Trend float64
	Started      bool
	alpha, beta  float64
	ahead        float64 // damped periods ahead, the mean over the horizon
}

// trendDamping is the part of the trend that remains after a period.
const trendDamping = 0.9

// NewHolt returns Holt-Winters with a damped trend and no season, for the mean of the next horizon periods.
func NewHolt(alpha, beta float64, horizon int) Simple { return newHolt(alpha, beta, horizon) }

func newHolt(alpha, beta float64, horizon int) *holt {
	p := &holt{alpha: alpha, beta: beta}
	sum, factor := 0.0, 1.0
	for range horizon {
		factor *= trendDamping
		sum += factor
		p.ahead += sum / float64(horizon)
	}
	return p
}

func (p *holt) Name() string { return "holt-winters" }

func (p *holt) Observe(n float64) {
	if !p.Started {
		p.Level, p.Started = n, true
		return
	}
	before := p.Level
	p.Level = p.alpha*n + (1-p.alpha)*(before+trendDamping*p.Trend)
	p.Trend = p.beta*(p.Level-before) + (1-p.beta)*trendDamping*p.Trend
}

func (p *holt) Predict() float64 { return max(0, p.Level+p.ahead*p.Trend) }

// windowMax predicts the maximum of the last periods.
type windowMax struct {
	Ring  []float64
	At    int
	Count int
}

// NewWindowMax returns the maximum of the last length periods.
func NewWindowMax(length int) Simple { return newWindowMax(length) }

func newWindowMax(length int) *windowMax { return &windowMax{Ring: make([]float64, length)} }

func (p *windowMax) Name() string { return "window-max" }

func (p *windowMax) Observe(n float64) {
	p.Ring[p.At] = n
	p.At = (p.At + 1) % len(p.Ring)
	p.Count = min(p.Count+1, len(p.Ring))
}

func (p *windowMax) Predict() float64 {
	high := 0.0
	for _, v := range p.Ring[:p.Count] {
		high = max(high, v)
	}
	return high
}

// linear is an autoregressive model of the changes, fitted by recursive least squares with forgetting.
// Its target is the mean need of the next horizon periods less the newest need. Changes and targets are
// divided by the mean change, so that the unit does not matter.
type linear struct {
	Coef    [arInputs]float64
	Cov     [arInputs][arInputs]float64
	Needs   []float64           // ring of the last horizon needs
	Inputs  [][arInputs]float64 // inputs of the same periods
	Changes [arInputs - 1]float64
	Size    smooth // mean size of changes
	At      int    // the oldest place of the rings
	Count   int
}

const (
	arInputs     = 5 // four changes and a constant
	maxCount     = 1 << 30
	arForgetting = 0.995
	arPrior      = 0.1 // initial covariance: the smaller, the longer the model stays near to "last"
	arLimit      = 8   // changes and targets beyond so many mean changes are limited
)

// NewLinear returns the linear autoregression for the mean of the next horizon periods.
func NewLinear(horizon int) Simple { return newLinear(horizon) }

func newLinear(horizon int) *linear {
	p := &linear{Needs: make([]float64, horizon), Inputs: make([][arInputs]float64, horizon)}
	p.reset()
	return p
}

func (p *linear) reset() {
	p.Cov = [arInputs][arInputs]float64{}
	for i := range arInputs {
		p.Cov[i][i] = arPrior
	}
}

func (p *linear) Name() string { return "linear" }

func (p *linear) Observe(n float64) {
	h := len(p.Needs)
	if p.Count > 0 {
		copy(p.Changes[1:], p.Changes[:])
		p.Changes[0] = n - p.Needs[(p.At+h-1)%h]
		p.Size.add(math.Abs(p.Changes[0]), 0.05)
	}
	// The oldest inputs get their target: the needs since then, this one included.
	inputs, base := p.Inputs[p.At], p.Needs[p.At]
	p.Needs[p.At] = n
	if size := p.Size.value(); p.Count >= h+arInputs && size > 0 {
		mean := 0.0
		for _, v := range p.Needs {
			mean += (v - base) / float64(h)
		}
		p.fit(&inputs, limit(mean/size))
	}
	p.Inputs[p.At] = p.scaledChanges()
	p.At = (p.At + 1) % h
	p.Count = min(p.Count+1, maxCount)
}

func limit(v float64) float64 { return max(-arLimit, min(v, arLimit)) }

func (p *linear) scaledChanges() (x [arInputs]float64) {
	if size := p.Size.value(); size > 0 {
		for i, c := range p.Changes {
			x[i] = limit(c / size)
		}
		x[arInputs-1] = 1
	}
	return x
}

// fit is a step of recursive least squares.
func (p *linear) fit(x *[arInputs]float64, target float64) {
	var cx [arInputs]float64
	power, predicted := 0.0, 0.0
	for i := range x {
		for j := range x {
			cx[i] += p.Cov[i][j] * x[j]
		}
		power += x[i] * cx[i]
		predicted += p.Coef[i] * x[i]
	}
	norm, trace := arForgetting+power, 0.0
	for i := range x {
		p.Coef[i] += cx[i] / norm * (target - predicted)
		for j := range x {
			p.Cov[i][j] = (p.Cov[i][j] - cx[i]*cx[j]/norm) / arForgetting
		}
		trace += p.Cov[i][i]
	}
	if !(trace > 0 && trace < 1e6) { // inputs that never change let the covariance grow
		p.reset()
	}
}

func (p *linear) Predict() float64 {
	h := len(p.Needs)
	x, change := p.scaledChanges(), 0.0
	for i := range x {
		change += p.Coef[i] * x[i]
	}
	return max(0, p.Needs[(p.At+h-1)%h]+limit(change)*p.Size.value())
}
