// SPDX-License-Identifier: Apache-2.0

package predict

import "math"

// The predictors of a Node by index: the simple ones, then the network.
const (
	network    = experts
	predictors = experts + 1
)

// Constants of the guard.
const (
	// guardMemory is the weight of the newest loss in the mean.
	guardMemory = 0.02
	// guardTolerance is by how much the loss of the network may exceed the least of five: the least of
	// several noisy values is below the truth.
	guardTolerance = 1.3
	// guardSharpness is the power of the ratio of losses that divides the need between the network and a simple
	// predictor.
	guardSharpness = 4
	// guardHold is how much better another simple predictor has to be before it replaces the present one.
	guardHold = 0.95
	// firstMargin is the margin of a simple predictor before experience, in spreads; marginStep is how
	// far one wrong decision moves it; margins end at maxMargin.
	firstMargin = 1.0
	marginStep  = 0.25
	maxMargin   = 64
)

// guard chooses the predictor of a node by the loss that each has had on it.
type guard struct {
	Losses    [predictors]smooth // pinball, pages per period
	Margins   [experts]float64   // margins in spreads
	Choice    int
	Decisions uint64
	ByNetwork uint64
}

func (g *guard) reset() {
	*g = guard{Choice: network}
	for i := range g.Margins {
		g.Margins[i] = firstMargin
	}
}

// settle adds the losses of a decision. Each simple predictor's margin moves until it
// suffices in tau of the periods (Robbins and Monro).
func (g *guard) settle(d *decision, needs []float64, tau float64) {
	for i, pages := range d.Pages {
		loss, _ := pinballMean(needs, pages, tau)
		g.Losses[i].add(loss, guardMemory)
		if i == network {
			continue
		}
		short := 0.0
		for _, need := range needs {
			if need > pages {
				short += 1 / float64(len(needs))
			}
		}
		g.Margins[i] = max(-maxMargin, min(g.Margins[i]+marginStep*(short-(1-tau)), maxMargin))
	}
}

// best is the simple predictor with the least loss.
func (g *guard) best() int {
	best := 0
	for i := range experts {
		if g.Losses[i].value() < g.Losses[best].value() {
			best = i
		}
	}
	return best
}

// share is the weight of the network in the need, next to that of the best simple predictor: a half where the
// loss of the network is guardTolerance times the other loss. A network that is far off has next to none.
func (g *guard) share(best int) float64 {
	own := g.Losses[network].value()
	if own <= 0 {
		return 1
	}
	r := math.Pow(guardTolerance*g.Losses[best].value()/own, guardSharpness)
	return 1 - 1/(1+r) // r may be infinite
}

// pages is the need: the weighted mean of what the network and the best simple predictor say. The mean of two
// predictors with different errors is better than either.
func (g *guard) pages(d *decision) float64 {
	best := g.best()
	share := g.share(best)
	return share*d.Pages[network] + (1-share)*d.Pages[best]
}

// choose names the predictor that counts most: the network unless a simple predictor is clearly better.
func (g *guard) choose() {
	best := g.best()
	least := g.Losses[best].value()
	switch {
	case g.Losses[network].value() <= guardTolerance*least:
		g.Choice = network
	case g.Choice == network || least < guardHold*g.Losses[g.Choice].value():
		g.Choice = best
	}
}
