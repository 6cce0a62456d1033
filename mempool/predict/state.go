// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
)

// Report is what `pool status` shows of a node's prediction.
type Report struct {
	// Predictor is the one that counts most: network, or the name of a simple predictor.
	Predictor string `json:"predictor"`
	// NetworkShare is the weight of the network in the need, 0 to 1; the rest is that of the best simple predictor.
	NetworkShare float64 `json:"network_share"`
	NeedPages    uint64  `json:"need_pages"`
	Periods      uint64  `json:"periods"`
	// NetworkPeriods is the number of periods in which the network counted most.
	NetworkPeriods uint64            `json:"network_periods"`
	Predictors     []PredictorReport `json:"predictors"`
	// Layers are the numbers of neurons, from the inputs to the output; Weights are in the order of
	// Network.Weights.
	Layers  []int     `json:"layers"`
	Weights []float64 `json:"weights"`
}

// PredictorReport is one predictor of a node.
type PredictorReport struct {
	Name string `json:"name"`
	// LossPages is the mean quantile loss per period, in pages.
	LossPages float64 `json:"loss_pages"`
	// PredictedPages is the newest prediction, margin included.
	PredictedPages float64 `json:"predicted_pages"`
	// MarginSpreads is the margin in units of the node's spread; the network has none.
	MarginSpreads float64 `json:"margin_spreads"`
}

// Report returns the present state for people. It allocates.
func (n *Node) Report() Report {
	d := &n.open[(n.at+len(n.open)-1)%len(n.open)]
	r := Report{
		Predictor:      n.name(n.guard.Choice),
		NetworkShare:   n.guard.share(n.guard.best()),
		NeedPages:      n.Need(),
		Periods:        n.guard.Decisions,
		NetworkPeriods: n.guard.ByNetwork,
		Layers:         append([]int{}, n.network.sizes...),
		Weights:        n.network.Weights(),
	}
	for i := range predictors {
		p := PredictorReport{Name: n.name(i), LossPages: n.guard.Losses[i].value(), PredictedPages: d.Pages[i]}
		if i != network {
			p.MarginSpreads = n.guard.Margins[i]
		}
		r.Predictors = append(r.Predictors, p)
	}
	return r
}

func (n *Node) name(predictor int) string {
	if predictor == network {
		return "network"
	}
	return n.history.expert(predictor).Name()
}

// stateVersion is the version of nodeState; another one is refused.
const stateVersion = 1

// nodeState is a Node as it is stored.
type nodeState struct {
	Version int          `json:"version"`
	Config  Config       `json:"config"`
	History historyState `json:"history"`
	Network NetworkState `json:"network"`
	Guard   guard        `json:"guard"`
	Open    []decision   `json:"open"`
	At      int          `json:"at"`
	Scale   smooth       `json:"scale"`
}

// MarshalJSON stores the Node. RestoreNode continues from there exactly.
func (n *Node) MarshalJSON() ([]byte, error) {
	return json.Marshal(&nodeState{stateVersion, n.cfg, n.history.s, n.network.State(), n.guard, n.open, n.at, n.scale})
}

// RestoreNode returns the Node that MarshalJSON stored. It returns ErrState or ErrConfig for data that is
// damaged or of another version; what it returns otherwise is safe for every sample.
func RestoreNode(data []byte) (*Node, error) {
	var head struct {
		Version int    `json:"version"`
		Config  Config `json:"config"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	if head.Version != stateVersion {
		return nil, fmt.Errorf("%w: version %d, need %d", ErrState, head.Version, stateVersion)
	}
	n, err := NewNode(head.Config, nil)
	if err != nil {
		return nil, err
	}
	s := nodeState{History: n.history.s, Open: n.open}
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	if err := s.check(head.Config.Horizon); err != nil {
		return nil, err
	}
	net, err := RestoreNetwork(s.Network)
	if err != nil {
		return nil, err
	}
	if net.Inputs() != Inputs {
		return nil, fmt.Errorf("%w: the network has %d inputs, need %d", ErrState, net.Inputs(), Inputs)
	}
	n.history.s, n.network, n.guard, n.open, n.at, n.scale = s.History, net, s.Guard, s.Open, s.At, s.Scale
	n.history.rises.restore(n.history)
	return n, nil
}

// check compares lengths, indices and values with their ranges.
func (s *nodeState) check(horizon int) error {
	h := &s.History
	for _, c := range []struct {
		name       string
		is, lo, hi int
	}{
		{"open decisions", len(s.Open), horizon, horizon},
		{"place in the open decisions", s.At, 0, horizon - 1},
		{"choice", s.Guard.Choice, 0, predictors - 1},
		{"place in the history", h.At, 0, window - 1},
		{"predictions", len(h.Centres), horizon, horizon},
		{"place in the predictions", h.CentreAt, 0, horizon - 1},
		{"window", len(h.Maximum.Ring), maximumWindow, maximumWindow},
		{"place in the window", h.Maximum.At, 0, maximumWindow - 1},
		{"values in the window", h.Maximum.Count, 0, maximumWindow},
		{"needs of the linear predictor", len(h.Linear.Needs), horizon, horizon},
		{"inputs of the linear predictor", len(h.Linear.Inputs), horizon, horizon},
		{"place in the linear predictor", h.Linear.At, 0, horizon - 1},
		{"periods of the linear predictor", h.Linear.Count, 0, maxCount},
	} {
		if c.is < c.lo || c.is > c.hi {
			return fmt.Errorf("%w: %s is %d (%d to %d)", ErrState, c.name, c.is, c.lo, c.hi)
		}
	}
	return checkValues(reflect.ValueOf(s).Elem())
}

// Ranges of stored numbers. The largest that samples can make is a squared demand.
const (
	maxStored       = 1e30
	minStoredWeight = 0.01
)

// checkValues looks for numbers out of range in all fields below v.
func checkValues(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Float64:
		if f := v.Float(); !(math.Abs(f) <= maxStored) {
			return fmt.Errorf("%w: the number %v", ErrState, f)
		}
	case reflect.Struct:
		if s, ok := v.Interface().(smooth); ok && s.Weight != 0 && !(s.Weight >= minStoredWeight && s.Weight <= 1.000001) {
			return fmt.Errorf("%w: the weight %v of a mean", ErrState, s.Weight)
		}
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			if err := checkValues(v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := checkValues(v.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}
