// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"errors"
	"math"
	"testing"
)

func TestTrainRefuses(t *testing.T) {
	trace := make([]Sample, 40)
	for name, change := range map[string]func(*TrainConfig){
		"no epochs":       func(c *TrainConfig) { c.Epochs = 0 },
		"empty batch":     func(c *TrainConfig) { c.Batch = 0 },
		"rate 0":          func(c *TrainConfig) { c.Rate = 0 },
		"rate NaN":        func(c *TrainConfig) { c.Rate = math.NaN() },
		"horizon 0":       func(c *TrainConfig) { c.Horizons = []int{0} },
		"huge horizon":    func(c *TrainConfig) { c.Horizons = []int{MaxHorizon + 1} },
		"no horizons":     func(c *TrainConfig) { c.Horizons = nil },
		"too few periods": func(c *TrainConfig) { trace = trace[:trainWarmup] },
	} {
		cfg := DefaultTrainConfig(3)
		change(&cfg)
		if _, err := Train(cfg, [][]Sample{trace}); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: error %v, want ErrConfig", name, err)
		}
		trace = trace[:40]
	}
	trace[7].Touched = 1
	if _, err := Train(DefaultTrainConfig(3), [][]Sample{trace}); !errors.Is(err, ErrSample) {
		t.Errorf("a page touched that is not leased: error %v, want ErrSample", err)
	}
}
