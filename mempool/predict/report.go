// SPDX-License-Identifier: Apache-2.0

package predict

// Report is the state of a node's prediction.
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
	d := &n.open[(n.oldest+len(n.open)-1)%len(n.open)]
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
