// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/mempool/predict"
)

// loss is the mean quantile loss, relative to the demand, of nodes that begin with a network.
func loss(t *testing.T, start *predict.Network, traces [][]predict.Sample) float64 {
	t.Helper()
	sum, need := 0.0, 0.0
	for _, trace := range traces {
		cfg := predict.DefaultConfig()
		n, err := predict.NewNode(cfg, start)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range trace {
			if err := n.Observe(s); err != nil {
				t.Fatal(err)
			}
			need += float64(s.Demand)
		}
		for _, p := range n.Report().Predictors {
			if p.Name == "network" {
				sum += p.LossPages * float64(len(trace))
			}
		}
	}
	return sum / need
}

// The committed start network is better than random weights, on traces that it was not trained with.
func TestStartNetworkHelps(t *testing.T) {
	traces := Traces(2, 40, 150)
	start, random := loss(t, predict.StartNetwork(), traces), loss(t, predict.NewNetwork(1, predict.Inputs, 32, 16), traces)
	if start > 0.7*random {
		t.Errorf("loss %.5f of the need with the start network, %.5f with random weights", start, random)
	}
}

// A network that Train made of a few traces is better than random weights on others.
func TestTrain(t *testing.T) {
	cfg := predict.DefaultTrainConfig(3)
	cfg.Epochs = 3
	n, err := predict.Train(cfg, Traces(3, 40, 120))
	if err != nil {
		t.Fatal(err)
	}
	traces := Traces(4, 30, 120)
	trained, random := loss(t, n, traces), loss(t, predict.NewNetwork(1, predict.Inputs, 32, 16), traces)
	if trained > 0.8*random {
		t.Errorf("loss %.5f of the need after training, %.5f with random weights", trained, random)
	}
	again, err := predict.Train(cfg, Traces(3, 40, 120))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(n.Weights(), again.Weights()) {
		t.Error("equal seeds gave different networks")
	}
}

func TestTracesAreValid(t *testing.T) {
	different := map[uint64]bool{}
	for i, trace := range Traces(5, 50, 100) {
		if len(trace) != 100 {
			t.Fatalf("trace %d has %d periods", i, len(trace))
		}
		for _, s := range trace {
			if s.Demand > predict.MaxPages || s.Touched > s.Leased {
				t.Fatalf("trace %d: %+v", i, s)
			}
		}
		different[trace[50].Demand] = true
	}
	if len(different) < 45 {
		t.Errorf("%d different demands in 50 traces", len(different))
	}
}
