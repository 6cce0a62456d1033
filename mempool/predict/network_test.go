// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The gradient of Backward is that of finite differences, for every weight.
func TestNetworkGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n := NewNetwork(7, 5, 6, 4)
	inputs := make([]float64, 5)
	const delta = 1e-6
	for range 20 {
		for i := range inputs {
			inputs[i] = r.NormFloat64()
		}
		// A smooth loss, the half of the squared distance to 0.3: its derivative is output - 0.3.
		loss := func() float64 { d := n.Output(inputs) - 0.3; return d * d / 2 }
		clear(n.gradient)
		n.Backward(n.Output(inputs) - 0.3)
		for i := range n.weights {
			w := n.weights[i]
			n.weights[i] = w + delta
			up := loss()
			n.weights[i] = w - delta
			down := loss()
			n.weights[i] = w
			if want := (up - down) / (2 * delta); math.Abs(n.gradient[i]-want) > 1e-7 {
				t.Fatalf("weight %d: gradient %v, finite differences say %v", i, n.gradient[i], want)
			}
		}
	}
}

// A network that learns a function of two inputs comes near to it.
func TestNetworkLearns(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	n := NewNetwork(1, 2, 16)
	truth := func(x []float64) float64 { return x[0] * x[1] }
	in := make([]float64, 2)
	for range 40_000 {
		in[0], in[1] = r.Float64()*2-1, r.Float64()*2-1
		n.Backward(n.Output(in) - truth(in))
		n.Step(0.003)
	}
	squares := 0.0
	for range 1000 {
		in[0], in[1] = r.Float64()*2-1, r.Float64()*2-1
		e := n.Output(in) - truth(in)
		squares += e * e / 1000
	}
	if squares > 0.003 { // the variance of the product is 0.11
		t.Errorf("mean squared error %v, want below 0.003", squares)
	}
}

// Without inputs that matter, the pinball loss leads the network to the quantile of the needs.
func TestPinballMinimiserIsQuantile(t *testing.T) {
	for _, tau := range []float64{0.5, 0.8, 0.95} {
		r := rand.New(rand.NewPCG(5, uint64(tau*100)))
		n := NewNetwork(2, 1, 4)
		in := []float64{1}
		needs := make([]float64, 1)
		for i := range 60_000 {
			needs[0] = r.ExpFloat64() // its quantile is -ln(1-tau)
			_, slope := pinballMean(needs, n.Output(in), tau)
			n.Backward(slope)
			n.Step(0.01 / (1 + float64(i)/2000))
		}
		if got, want := n.Output(in), -math.Log(1-tau); math.Abs(got-want) > 0.12*want {
			t.Errorf("tau %v: output %v, the quantile is %v", tau, got, want)
		}
	}
}

// For any needs, no allocation has less mean loss than their quantile.
func TestPinballLeastAtQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 300 {
		needs := make([]float64, 1+r.IntN(30))
		for i := range needs {
			needs[i] = math.Round(r.ExpFloat64() * 10)
		}
		tau := 0.5 + r.Float64()*0.49
		sorted := slices.Sorted(slices.Values(needs))
		quantile := sorted[int(math.Ceil(tau*float64(len(needs))))-1]
		least, _ := pinballMean(needs, quantile, tau)
		for a := 0.0; a < 100; a += 0.5 {
			if loss, _ := pinballMean(needs, a, tau); loss < least-1e-9 {
				t.Fatalf("needs %v, tau %v: allocation %v has loss %v, the quantile %v has %v", needs, tau, a, loss, quantile, least)
			}
		}
	}
}

func TestNetworkDeterministic(t *testing.T) {
	train := func() []float64 {
		n := NewNetwork(9, 3, 8)
		r := rand.New(rand.NewPCG(1, 1))
		for range 500 {
			n.Output([]float64{r.Float64(), r.Float64(), r.Float64()})
			n.Backward(r.Float64() - 0.5)
			n.Step(0.01)
		}
		return n.Weights()
	}
	if !slices.Equal(train(), train()) {
		t.Error("equal seeds and inputs gave different weights")
	}
	if slices.Equal(NewNetwork(1, 3, 8).Weights(), NewNetwork(2, 3, 8).Weights()) {
		t.Error("different seeds gave equal weights")
	}
}

// A gradient that is not finite changes nothing, and a huge one changes no weight by more than a few rates.
func TestNetworkHugeGradient(t *testing.T) {
	n := NewNetwork(1, 3, 8)
	before := n.Weights()
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		n.Output([]float64{1, 2, 3})
		n.Backward(bad)
		n.Step(0.01)
		if !slices.Equal(n.Weights(), before) {
			t.Errorf("the slope %v changed the weights", bad)
		}
	}
	n.Output([]float64{1, 2, 3})
	n.Backward(1e100)
	n.Step(0.01)
	for i, w := range n.Weights() {
		if math.Abs(w-before[i]) > 0.02 {
			t.Errorf("weight %d moved from %v to %v", i, before[i], w)
		}
	}
}

// RestoreNetwork refuses what State cannot have made.
func TestRestoreNetworkRefuses(t *testing.T) {
	good := func() NetworkState { return NewNetwork(1, 3, 4).State() }
	if n, err := RestoreNetwork(good()); err != nil || !slices.Equal(n.Weights(), good().Weights) {
		t.Fatalf("a good state: %v", err)
	}
	for name, damage := range map[string]func(*NetworkState){
		"no layers":          func(s *NetworkState) { s.Sizes = nil },
		"one layer":          func(s *NetworkState) { s.Sizes = []int{1} },
		"two outputs":        func(s *NetworkState) { s.Sizes[2] = 2 },
		"empty layer":        func(s *NetworkState) { s.Sizes[1] = 0 },
		"negative layer":     func(s *NetworkState) { s.Sizes[1] = -1 },
		"large layer":        func(s *NetworkState) { s.Sizes[1] = 1 << 40 },
		"many layers":        func(s *NetworkState) { s.Sizes = []int{1, 1, 1, 1, 1, 1, 1} },
		"short weights":      func(s *NetworkState) { s.Weights = s.Weights[1:] },
		"long moments":       func(s *NetworkState) { s.Mean = append(s.Mean, 0) },
		"NaN":                func(s *NetworkState) { s.Weights[0] = math.NaN() },
		"infinite":           func(s *NetworkState) { s.Weights[0] = math.Inf(-1) },
		"huge":               func(s *NetworkState) { s.Weights[0] = 1e7 },
		"negative variance":  func(s *NetworkState) { s.Variance[0] = -1e-9 },
		"moments of another": func(s *NetworkState) { s.Mean, s.Variance = nil, []float64{1} },
	} {
		s := good()
		damage(&s)
		if _, err := RestoreNetwork(s); !errors.Is(err, ErrState) {
			t.Errorf("%s: error %v, want ErrState", name, err)
		}
	}
}
