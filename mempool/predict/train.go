// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// TrainConfig is how Train makes a start network. DefaultTrainConfig returns one to start from.
type TrainConfig struct {
	// Horizons are the numbers of periods for which decisions hold; the network learns all of them.
	Horizons []int
	// Hidden are the numbers of neurons of the hidden layers.
	Hidden []int
	// Epochs is how often each decision is used, Batch how many make one step.
	Epochs, Batch int
	// Rate is the learning rate at the start; it falls to 0 like a cosine.
	Rate float64
	// Seed is the seed of the first weights, of the order of the decisions and of their quantiles.
	Seed uint64
}

// DefaultTrainConfig returns the configuration of docs/study/memory-prediction.md for one horizon.
func DefaultTrainConfig(horizon int) TrainConfig {
	return TrainConfig{Horizons: []int{horizon}, Hidden: []int{32, 16}, Epochs: 5, Batch: 32, Rate: 2e-3, Seed: 1}
}

// Quantiles in training: uniform in log(tau/(1-tau)) between these.
const (
	trainMinTau = 0.5
	trainMaxTau = 0.998
)

// trainWarmup is the number of periods of a trace before its first decision.
const trainWarmup = 12

// lesson is a decision whose needs are known.
type lesson struct {
	inputs       [Inputs]float64
	last, spread float64
	needs        []float64
}

// Train makes a start network for nodes from the samples of other nodes, or of their past: one slice per
// node, one sample per period. Each decision counts by the spread of its node, because a node that changes by many
// pages can miss many. It returns ErrConfig or ErrSample, and ErrConfig if no trace is long enough.
// It takes 0.5 kB of memory per sample and horizon.
func Train(cfg TrainConfig, traces [][]Sample) (*Network, error) {
	if cfg.Epochs < 1 || cfg.Batch < 1 || !(cfg.Rate > 0 && cfg.Rate <= maxRate) {
		return nil, fmt.Errorf("%w: %d epochs, %d decisions per step, learning rate %v", ErrConfig, cfg.Epochs, cfg.Batch, cfg.Rate)
	}
	var lessons []lesson
	for _, h := range cfg.Horizons {
		if h < 1 || h > MaxHorizon {
			return nil, fmt.Errorf("%w: horizon %d periods (1 to %d)", ErrConfig, h, MaxHorizon)
		}
		for _, t := range traces {
			var err error
			if lessons, err = appendLessons(lessons, t, h); err != nil {
				return nil, err
			}
		}
	}
	if len(lessons) == 0 {
		return nil, fmt.Errorf("%w: no trace is longer than %d periods and a horizon", ErrConfig, trainWarmup)
	}
	n := NewNetwork(cfg.Seed, append([]int{Inputs}, cfg.Hidden...)...)
	n.study(cfg, lessons)
	n.ResetMoments()
	return n, nil
}

// appendLessons makes a lesson of each period of a trace.
func appendLessons(to []lesson, trace []Sample, horizon int) ([]lesson, error) {
	history := NewHistory(horizon)
	needs := make([]float64, len(trace))
	for i, s := range trace {
		if err := s.Check(); err != nil {
			return nil, fmt.Errorf("period %d: %w", i, err)
		}
		needs[i] = float64(s.Demand)
	}
	for i, s := range trace {
		history.Observe(needs[i], s.utilisation())
		if i < trainWarmup || i+horizon >= len(trace) {
			continue
		}
		l := lesson{last: history.Last(), spread: history.Spread(), needs: needs[i+1 : i+1+horizon]}
		history.Fill(l.inputs[:], trainMinTau)
		to = append(to, l)
	}
	return to, nil
}

// study trains with all lessons in a random order, once per epoch.
func (n *Network) study(cfg TrainConfig, lessons []lesson) {
	r := rand.New(rand.NewPCG(cfg.Seed, 0x7261))
	unit := 0.0
	for i := range lessons {
		unit += lessons[i].spread / float64(len(lessons))
	}
	low, high := logit(trainMinTau), logit(trainMaxTau)
	done, total := 0, cfg.Epochs*len(lessons)
	for range cfg.Epochs {
		for _, i := range r.Perm(len(lessons)) {
			l := &lessons[i]
			tau := 1 / (1 + math.Exp(-(low + r.Float64()*(high-low))))
			SetTau(l.inputs[:], tau)
			pages, slope := allocation(l.last, l.spread, n.Output(l.inputs[:]))
			_, loss := pinballMean(l.needs, pages, tau)
			n.Backward(loss * slope / (unit * float64(cfg.Batch)))
			if done++; done%cfg.Batch == 0 {
				n.Step(cfg.Rate * (1 + math.Cos(math.Pi*float64(done)/float64(total))) / 2)
			}
		}
	}
}

func logit(p float64) float64 { return math.Log(p / (1 - p)) }
