// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"

	"github.com/softroce/softroce-xdp/mempool/predict"
)

// variant is a simple predictor with its parameter.
type variant struct {
	family, parameter string // a parameter ends with a comma
	make              func(horizon int) predict.Simple
}

// variants are all simple predictors of the comparison.
func variants() []variant {
	all := []variant{{"last value", "", func(int) predict.Simple { return predict.NewEWMA(1) }}}
	for _, a := range []float64{0.1, 0.2, 0.35, 0.5, 0.7} {
		all = append(all, variant{"EWMA", fmt.Sprintf("alpha %v, ", a), func(int) predict.Simple { return predict.NewEWMA(a) }})
	}
	for _, ab := range [][2]float64{{0.3, 0.05}, {0.5, 0.1}, {0.8, 0.1}, {0.9, 0.3}} {
		all = append(all, variant{"Holt-Winters", fmt.Sprintf("alpha %v, beta %v, ", ab[0], ab[1]),
			func(h int) predict.Simple { return predict.NewHolt(ab[0], ab[1], h) }})
	}
	for _, n := range []int{2, 3, 4, 6, 9, 12, 24} {
		all = append(all, variant{"window maximum", fmt.Sprintf("%d periods, ", n), func(int) predict.Simple { return predict.NewWindowMax(n) }})
	}
	return append(all, variant{"linear", "", predict.NewLinear})
}

// method is a way to allocate, with its curves on validation and test traces.
type method struct {
	name             string
	validation, test curve
	detail           string
}

// baselines are, per family, the variant and the unit of the margin that miss least on the validation traces.
func baselines(sets [parts][]trace, horizon int, over float64) []method {
	var families []string
	best := map[string]method{}
	least := map[string]float64{}
	for _, v := range variants() {
		d := collect(sets[validation], horizon, v.make)
		for unit := range units {
			c := d.curve(unit)
			under := c.equal(over)
			if l, ok := least[v.family]; ok && l <= under {
				continue
			} else if !ok {
				families = append(families, v.family)
			}
			least[v.family] = under
			best[v.family] = method{v.family, c, lazy(sets[test], horizon, v, unit), v.parameter + "margin by " + unitNames[unit]}
		}
	}
	all := make([]method, 0, len(families))
	for _, f := range families {
		all = append(all, best[f])
	}
	return all
}

// lazy is a curve whose predictions are made when they are first needed.
func lazy(traces []trace, horizon int, v variant, unit int) curve {
	var c curve
	return curve{-15, 60, func(margin float64) score {
		if c.at == nil {
			c = collect(traces, horizon, v.make).curve(unit)
		}
		return c.at(margin)
	}}
}

// fixedNetwork is a network that does not learn from the traces it is tested with. The knob is log(tau/(1-tau)).
func fixedNetwork(name string, nets []*predict.Network, sets [parts][]trace, horizon int) method {
	return method{name, networkCurve(nets, sets[validation], horizon), networkCurve(nets, sets[test], horizon), ""}
}

func networkCurve(nets []*predict.Network, traces []trace, horizon int) curve {
	type input struct {
		values       [predict.Inputs]float64
		last, spread float64
	}
	var inputs []input
	var needs []float64
	for _, t := range traces {
		h := predict.NewHistory(horizon)
		for at := 0; at+horizon < len(t.need); at++ {
			h.Observe(t.need[at], t.use(at))
			if at < warmup {
				continue
			}
			in := input{last: h.Last(), spread: h.Spread()}
			h.Fill(in.values[:], 0.9)
			inputs = append(inputs, in)
			needs = append(needs, t.need[at+1:at+1+horizon]...)
		}
	}
	cache := map[float64]score{}
	return curve{logit(0.3), logit(0.9995), func(knob float64) score {
		if s, ok := cache[knob]; ok {
			return s
		}
		var s sums
		for i := range inputs {
			in := &inputs[i]
			predict.SetTau(in.values[:], 1/(1+math.Exp(-knob)))
			output := 0.0
			for _, n := range nets {
				output += n.Output(in.values[:]) / float64(len(nets))
			}
			pages := max(0, in.last+in.spread*math.Sinh(max(-12, min(output, 12))))
			s.add(pages, needs[i*horizon:(i+1)*horizon])
		}
		cache[knob] = s.score()
		return cache[knob]
	}}
}

func logit(p float64) float64 { return math.Log(p / (1 - p)) }

// nodes is predict.Node as the pool server runs it: it learns from each trace alone, and its guard
// chooses. The knob is log(tau/(1-tau)).
func nodes(name string, start *predict.Network, rate float64, sets [parts][]trace, horizon int) method {
	m := method{name: name}
	var grid [2][]score
	var network float64
	for _, tau := range nodeTaus {
		for i, part := range []int{validation, test} {
			var s score
			s, network = runNodes(start, rate, sets[part], horizon, tau)
			grid[i] = append(grid[i], s)
		}
	}
	m.validation, m.test = between(grid[0]), between(grid[1])
	m.detail = fmt.Sprintf("network in %.0f %% of the periods", 100*network)
	return m
}

// nodeTaus are the quantiles for which Nodes run; scores between them are interpolated.
var nodeTaus = []float64{0.6, 0.75, 0.85, 0.92, 0.96, 0.98, 0.993}

// between is the curve through the scores of nodeTaus.
func between(grid []score) curve {
	return curve{logit(nodeTaus[0]), logit(nodeTaus[len(nodeTaus)-1]), func(knob float64) score {
		i := 1
		for i < len(nodeTaus)-1 && logit(nodeTaus[i]) < knob {
			i++
		}
		low, high := logit(nodeTaus[i-1]), logit(nodeTaus[i])
		part := max(0, min((knob-low)/(high-low), 1))
		a, b := grid[i-1], grid[i]
		return score{a.under + part*(b.under-a.under), a.over + part*(b.over-a.over)}
	}}
}

// runNodes is the score of Nodes with one tau, and the part of the periods that their networks decided.
func runNodes(start *predict.Network, rate float64, traces []trace, horizon int, tau float64) (score, float64) {
	var s sums
	var periods, network uint64
	for _, t := range traces {
		cfg := predict.DefaultConfig()
		cfg.Horizon, cfg.Tau, cfg.Rate = horizon, tau, rate
		n, err := predict.NewNode(cfg, start)
		if err != nil {
			panic(err)
		}
		for at := 0; at+horizon < len(t.samples); at++ {
			if err := n.Observe(t.samples[at]); err != nil {
				panic(err)
			}
			if at >= warmup {
				s.add(float64(n.Need()), t.need[at+1:at+1+horizon])
			}
		}
		r := n.Report()
		periods += r.Periods
		network += r.NetworkPeriods
	}
	return s.score(), float64(network) / float64(periods)
}
