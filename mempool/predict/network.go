// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// Constants of Adam (Kingma and Ba, 2015) and the largest gradient norm of one step.
const (
	adamMean     = 0.9
	adamVariance = 0.999
	adamEpsilon  = 1e-8
	maxGradient  = 10.0
)

// Network is a multilayer perceptron with one linear output and tanh in its hidden layers.
// It is trained by Adam. A Network allocates nothing after it is made, and equal seeds and equal
// inputs give equal weights. It is not safe for concurrent use.
type Network struct {
	sizes []int // neurons per layer: inputs, hidden layers, 1
	// weights has layer after layer, in a layer output after output: the bias, then a weight per input.
	weights        []float64
	gradient       []float64 // sum since the last Step
	mean, variance []float64 // moments of the gradient (Adam)
	steps          uint64
	active         [][]float64 // the values of each layer in the last Output
	delta          [][]float64 // the gradient with respect to them
}

// NewNetwork returns a network with random weights. Sizes are the numbers of neurons per layer, from
// the inputs to the last hidden layer; the layer with the one output follows them.
func NewNetwork(seed uint64, sizes ...int) *Network {
	n := emptyNetwork(append(append([]int{}, sizes...), 1))
	r := rand.New(rand.NewPCG(seed, 0x5352))
	at := 0
	for l := 1; l < len(n.sizes); l++ {
		in := n.sizes[l-1]
		scale := math.Sqrt(1 / float64(in)) // keeps the variance of tanh layers (LeCun)
		for range n.sizes[l] {
			at++ // bias 0
			for range in {
				n.weights[at] = scale * r.NormFloat64()
				at++
			}
		}
	}
	return n
}

// emptyNetwork returns a network whose weights are zero.
func emptyNetwork(sizes []int) *Network {
	count := weightCount(sizes)
	n := &Network{
		sizes:    sizes,
		weights:  make([]float64, count),
		gradient: make([]float64, count),
		mean:     make([]float64, count),
		variance: make([]float64, count),
	}
	for _, s := range sizes {
		n.active = append(n.active, make([]float64, s))
		n.delta = append(n.delta, make([]float64, s))
	}
	return n
}

// weightCount is the number of weights of a network with these layers.
func weightCount(sizes []int) int {
	count := 0
	for l := 1; l < len(sizes); l++ {
		count += sizes[l] * (sizes[l-1] + 1)
	}
	return count
}

// Clone returns an independent copy.
func (n *Network) Clone() *Network {
	c := emptyNetwork(append([]int{}, n.sizes...))
	copy(c.weights, n.weights)
	copy(c.mean, n.mean)
	copy(c.variance, n.variance)
	c.steps = n.steps
	return c
}

// Inputs is the number of inputs.
func (n *Network) Inputs() int { return n.sizes[0] }

// Output is the value of the network for the inputs. It panics if their number is not Inputs.
func (n *Network) Output(inputs []float64) float64 {
	if len(inputs) != n.sizes[0] {
		panic("predict: wrong number of inputs")
	}
	copy(n.active[0], inputs)
	at, last := 0, len(n.sizes)-1
	for l := 1; l <= last; l++ {
		in, out := n.active[l-1], n.active[l]
		for j := range out {
			row := n.weights[at : at+1+len(in)]
			sum := row[0]
			row = row[1:]
			for i, x := range in {
				sum += row[i] * x
			}
			if l < last {
				sum = math.Tanh(sum)
			}
			out[j] = sum
			at += 1 + len(in)
		}
	}
	return n.active[last][0]
}

// Backward adds the gradient of a loss, for the inputs of the last Output. Slope is the derivative of
// the loss with respect to the output. Step applies the sum.
func (n *Network) Backward(slope float64) {
	last := len(n.sizes) - 1
	n.delta[last][0] = slope
	end := len(n.weights)
	for l := last; l >= 1; l-- {
		in, width := n.active[l-1], 1+n.sizes[l-1]
		at := end - width*n.sizes[l]
		end = at
		below := n.delta[l-1]
		clear(below)
		for _, d := range n.delta[l] {
			row, grad := n.weights[at:at+width], n.gradient[at:at+width]
			grad[0] += d
			row, grad = row[1:], grad[1:]
			for i, x := range in {
				grad[i] += d * x
				below[i] += d * row[i]
			}
			at += width
		}
		if l > 1 {
			for i, x := range in {
				below[i] *= 1 - x*x // the derivative of tanh
			}
		}
	}
}

// Step moves the weights against the sum of the gradients since the last Step, and clears the sum.
// A sum whose norm is above 10 is scaled to 10: less would bias
// quantiles, whose rare gradients are the large ones. A sum that is not finite is dropped.
func (n *Network) Step(rate float64) {
	norm := 0.0
	for _, g := range n.gradient {
		norm += g * g
	}
	norm = math.Sqrt(norm)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		clear(n.gradient)
		return
	}
	scale := 1.0
	if norm > maxGradient {
		scale = maxGradient / norm
	}
	n.steps++
	rate *= math.Sqrt(1-math.Pow(adamVariance, float64(n.steps))) / (1 - math.Pow(adamMean, float64(n.steps)))
	for i, g := range n.gradient {
		g *= scale
		n.mean[i] = adamMean*n.mean[i] + (1-adamMean)*g
		n.variance[i] = adamVariance*n.variance[i] + (1-adamVariance)*g*g
		n.weights[i] -= rate * n.mean[i] / (math.Sqrt(n.variance[i]) + adamEpsilon)
	}
	clear(n.gradient)
}

// Weights is a copy of the weights: layer after layer, in a layer neuron after neuron, the bias first.
func (n *Network) Weights() []float64 { return append([]float64{}, n.weights...) }

// ResetMoments forgets the moments of the gradient: training starts again from the present weights.
func (n *Network) ResetMoments() {
	clear(n.mean)
	clear(n.variance)
	n.steps = 0
}

// NetworkState is a network as it is stored.
type NetworkState struct {
	Sizes    []int     `json:"sizes"`
	Weights  []float64 `json:"weights"`
	Mean     []float64 `json:"gradient_mean,omitempty"`
	Variance []float64 `json:"gradient_variance,omitempty"`
	Steps    uint64    `json:"steps"`
}

// State is a copy of all that training has changed.
func (n *Network) State() NetworkState {
	return NetworkState{append([]int{}, n.sizes...), n.Weights(), append([]float64{}, n.mean...), append([]float64{}, n.variance...), n.steps}
}

// Limits of a stored network: they bound the memory that a damaged file makes a reader allocate.
const (
	maxLayers  = 6
	maxNeurons = 256
	maxWeight  = 1e6
)

// ErrState says that stored weights are damaged or of another version.
var ErrState = errors.New("predict: stored state is not valid")

// RestoreNetwork returns the network of a stored state. It returns ErrState if layers, lengths or values
// are out of range. A state without moments is that of a network whose training begins.
func RestoreNetwork(s NetworkState) (*Network, error) {
	if len(s.Sizes) < 2 || len(s.Sizes) > maxLayers || s.Sizes[len(s.Sizes)-1] != 1 {
		return nil, fmt.Errorf("%w: layers %v (2 to %d, the last one neuron)", ErrState, s.Sizes, maxLayers)
	}
	for _, size := range s.Sizes {
		if size < 1 || size > maxNeurons {
			return nil, fmt.Errorf("%w: a layer of %d neurons (1 to %d)", ErrState, size, maxNeurons)
		}
	}
	n := emptyNetwork(append([]int{}, s.Sizes...))
	if len(s.Mean) == 0 && len(s.Variance) == 0 {
		s.Mean, s.Variance, s.Steps = n.mean, n.variance, 0
	}
	for _, part := range []struct {
		name     string
		from, to []float64
		least    float64
	}{{"weights", s.Weights, n.weights, -maxWeight}, {"gradient_mean", s.Mean, n.mean, -maxWeight}, {"gradient_variance", s.Variance, n.variance, 0}} {
		if len(part.from) != len(part.to) {
			return nil, fmt.Errorf("%w: %d values in %s, need %d", ErrState, len(part.from), part.name, len(part.to))
		}
		for _, v := range part.from {
			if !(v >= part.least && v <= maxWeight) { // NaN fails as well
				return nil, fmt.Errorf("%w: %v in %s (%v to %v)", ErrState, v, part.name, part.least, maxWeight)
			}
		}
		copy(part.to, part.from)
	}
	n.steps = s.Steps
	return n, nil
}
