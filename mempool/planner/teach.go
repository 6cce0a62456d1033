// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"

	"github.com/softroce/softroce-xdp/mempool/predict"
)

// checkPart is the part of each trace, its newest samples, that a network is checked with and not trained.
const checkPart = 0.2

// Teach is the Trainer: it trains a network with the older samples of each trace, and compares it with the
// present first weights on the newest ones. Equal tasks give equal results.
func Teach(t Task) (Result, error) {
	var whole, older [][]predict.Sample
	var from []int
	for _, s := range t.Traces {
		list := s.samples()
		cut := len(list) - int(checkPart*float64(len(list)))
		whole, older, from = append(whole, list), append(older, list[:cut]), append(from, cut)
	}
	present := predict.StartNetwork()
	if t.Start != nil {
		var err error
		if present, err = predict.RestoreNetwork(*t.Start); err != nil {
			return Result{}, err
		}
	}
	c := predict.DefaultTrainConfig(t.Config.Horizon)
	c.Seed = t.Seed
	n, err := predict.Train(c, older)
	if err != nil {
		return Result{}, err
	}
	var r Result
	for _, x := range []struct {
		n  *predict.Network
		to *float64
	}{{n, &r.Loss}, {present, &r.Present}} {
		if *x.to, err = predict.Loss(x.n, t.Config, whole, from); err != nil {
			return Result{}, fmt.Errorf("compare: %w", err)
		}
	}
	r.Weights = n.State()
	r.Weights.Mean, r.Weights.Variance = nil, nil
	return r, nil
}
