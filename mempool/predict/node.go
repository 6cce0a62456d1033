// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"errors"
	"fmt"
	"math"
)

// Limits of a configuration and of samples.
const (
	// MaxHorizon is the largest number of periods for which one prediction holds.
	MaxHorizon = 24
	// MaxPages is the largest demand: 4 PiB in pages of 4096 bytes.
	MaxPages = 1 << 40
	minTau   = 0.5
	maxTau   = 0.999
	maxRate  = 0.1
)

// Errors of this package. Their texts name the value.
var (
	// ErrConfig says that a configuration has a value out of its range.
	ErrConfig = errors.New("predict: configuration is not valid")
	// ErrSample says that a sample cannot be true. The Node has not changed.
	ErrSample = errors.New("predict: sample is not valid")
)

// Config is the configuration of a Node. DefaultConfig returns one to start from.
type Config struct {
	// Horizon is the number of periods for which a prediction holds, 1 to MaxHorizon.
	Horizon int `json:"horizon_periods"`
	// Tau is the part of the time in which the prediction is to suffice, 0.5 to 0.999. A larger tau
	// leaves more pages unused and fewer missing.
	Tau float64 `json:"tau"`
	// Rate is the learning rate of the network, 0 (the weights stay) to 0.1.
	Rate float64 `json:"learning_rate"`
}

// DefaultConfig returns the configuration of the pool server.
func DefaultConfig() Config { return Config{Horizon: 3, Tau: 0.9, Rate: 2e-4} }

func (c Config) check() error {
	switch {
	case c.Horizon < 1 || c.Horizon > MaxHorizon:
		return fmt.Errorf("%w: horizon %d periods (1 to %d)", ErrConfig, c.Horizon, MaxHorizon)
	case !(c.Tau >= minTau && c.Tau <= maxTau):
		return fmt.Errorf("%w: tau %v (%v to %v)", ErrConfig, c.Tau, minTau, maxTau)
	case !(c.Rate >= 0 && c.Rate <= maxRate):
		return fmt.Errorf("%w: learning rate %v (0 to %v)", ErrConfig, c.Rate, maxRate)
	}
	return nil
}

// Sample is what a node needed and used in one period.
type Sample struct {
	// Demand is the number of pages that found no room in local memory, 0 to MaxPages.
	Demand uint64 `json:"demand_pages"`
	// Leased is the number of pages that the node leased, and Touched how many distinct ones of them
	// it accessed. Touched / Leased is the utilisation.
	Touched uint64 `json:"touched_pages"`
	Leased  uint64 `json:"leased_pages"`
}

// Check returns ErrSample if the demand exceeds MaxPages, or more pages were touched than leased.
func (s Sample) Check() error {
	if s.Demand > MaxPages {
		return fmt.Errorf("%w: demand %d pages (0 to %d)", ErrSample, s.Demand, uint64(MaxPages))
	}
	if s.Touched > s.Leased {
		return fmt.Errorf("%w: %d pages touched of %d leased", ErrSample, s.Touched, s.Leased)
	}
	return nil
}

func (s Sample) utilisation() float64 {
	if s.Leased == 0 {
		return 0
	}
	return float64(s.Touched) / float64(s.Leased)
}

// Node predicts the need of one node of the pool.
type Node struct {
	cfg     Config
	history *History
	network *Network
	guard   guard
	open    []decision // ring of the decisions of the last horizon periods
	at      int        // the oldest
	scale   smooth     // mean of the spreads: the unit of the training loss
	needs   []float64  // scratch: the needs of a decision
}

// decision is a prediction that was made, until its horizon is over.
type decision struct {
	Inputs       [Inputs]float64
	Last, Spread float64
	Pages        [predictors]float64
	Made         bool
}

// NewNode returns a Node without history. Its network begins with a copy of start, whose number of
// inputs must be Inputs; without one (nil) it is StartNetwork. It returns ErrConfig.
func NewNode(cfg Config, start *Network) (*Node, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if start == nil {
		start = loadStart()
	}
	if start.Inputs() != Inputs {
		return nil, fmt.Errorf("%w: the start network has %d inputs, need %d", ErrConfig, start.Inputs(), Inputs)
	}
	n := &Node{
		cfg:     cfg,
		history: NewHistory(cfg.Horizon),
		network: start.Clone(),
		open:    make([]decision, cfg.Horizon),
		needs:   make([]float64, cfg.Horizon),
	}
	n.network.ResetMoments()
	n.guard.reset()
	return n, nil
}

// Observe adds the sample of a period, trains the network with the decision whose horizon it ends, and
// makes the next decision. It returns ErrSample, and ignores the sample, if the demand exceeds MaxPages or
// more pages were touched than leased.
func (n *Node) Observe(s Sample) error {
	if err := s.Check(); err != nil {
		return err
	}
	n.history.Observe(float64(s.Demand), s.utilisation())
	if d := &n.open[n.at]; d.Made {
		n.settle(d)
	}
	n.decide(&n.open[n.at])
	n.at = (n.at + 1) % len(n.open)
	return nil
}

// settle compares a decision with the needs of its horizon.
func (n *Node) settle(d *decision) {
	for age := range n.needs {
		n.needs[age] = n.history.back(&n.history.s.Need, age)
	}
	n.guard.settle(d, n.needs, n.cfg.Tau)
	if n.cfg.Rate > 0 {
		n.train(d)
	}
}

// train is one step of the network towards the quantile of the needs.
func (n *Node) train(d *decision) {
	n.scale.add(d.Spread, 0.05)
	pages, slope := allocation(d.Last, d.Spread, n.network.Output(d.Inputs[:]))
	_, loss := pinballMean(n.needs, pages, n.cfg.Tau)
	n.network.Backward(loss * slope / n.scale.value())
	n.network.Step(n.cfg.Rate)
}

// decide makes the predictions of all predictors for the next periods.
func (n *Node) decide(d *decision) {
	h := n.history
	h.Fill(d.Inputs[:], n.cfg.Tau)
	d.Last, d.Spread, d.Made = h.Last(), h.Spread(), true
	for i := range experts {
		d.Pages[i] = max(0, h.centre(i)+n.guard.Margins[i]*d.Spread)
	}
	d.Pages[network] = h.Allocation(n.network.Output(d.Inputs[:]))
	n.guard.choose()
	n.guard.Decisions++
	if n.guard.Choice == network {
		n.guard.ByNetwork++
	}
}

// Need is the prediction for the next periods, in whole pages. Without a sample it is 0.
func (n *Node) Need() uint64 {
	d := &n.open[(n.at+len(n.open)-1)%len(n.open)]
	if !d.Made {
		return 0
	}
	pages := math.Ceil(n.guard.pages(d))
	if !(pages > 0) {
		return 0
	}
	return uint64(min(pages, MaxPages))
}

// Choice is the predictor that counts most in Need: network, or the name of a simple predictor.
func (n *Node) Choice() string { return n.name(n.guard.Choice) }

// ByNetwork reports whether the network counts most in Need.
func (n *Node) ByNetwork() bool { return n.guard.Choice == network }
