// SPDX-License-Identifier: Apache-2.0

// Package planner divides a pool among its nodes by what each will need (S4.2): the predictions are those
// of mempool/predict, by a small neural network for each node with a guard. A Planner is the Planner of a
// lease.Config.
package planner

import (
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/predict"
)

const (
	// pageBytes is the unit of the predictions.
	pageBytes = 4096

	// firstPeriods is for how many periods the need of a new node is what it needed last: the network
	// knows nothing of it yet.
	firstPeriods = 4

	// level is the priority of all nodes: those of the node file do not reach the server yet.
	level = 1
)

// Planner implements lease.Planner.
type Planner struct {
	config predict.Config
	nodes  map[lease.NodeID]*node
}

var _ lease.Planner = (*Planner)(nil)

type node struct {
	prediction *predict.Node
	last       lease.Usage
	periods    int
}

// New returns a Planner that knows no node.
func New() *Planner {
	return &Planner{config: predict.DefaultConfig(), nodes: map[lease.NodeID]*node{}}
}

// Observe implements lease.Planner. The network of the node learns from it.
func (p *Planner) Observe(id lease.NodeID, u lease.Usage) {
	n := p.nodes[id]
	if n == nil {
		prediction, err := predict.NewNode(p.config, nil)
		if err != nil {
			panic(err) // the default configuration is valid
		}
		n = &node{prediction: prediction}
		p.nodes[id] = n
	}
	leased := pages(u.Leased)
	// A node's report is bounded by the pool, so the sample is valid.
	err := n.prediction.Observe(predict.Sample{Demand: min(pages(u.Demand), predict.MaxPages), Touched: min(pages(u.Used), leased), Leased: leased})
	if err == nil {
		n.last = u
		n.periods++
	}
}

func pages(bytes uint64) uint64 { return (bytes + pageBytes - 1) / pageBytes }

// Forget implements lease.Planner.
func (p *Planner) Forget(id lease.NodeID) { delete(p.nodes, id) }

// Plan implements lease.Planner. Each node gets what it will need, or what it used if that is more, as far as
// the slabs suffice; then all get equal shares, and none more than that. What nobody needs stays free.
func (p *Planner) Plan(slabs int, slabBytes uint64, list []lease.Need) []int {
	claims, grants := make([]predict.Claim, len(list)), make([]uint64, len(list))
	for i, x := range list {
		claims[i] = predict.Claim{Level: level}
		if n := p.nodes[x.Node]; n != nil {
			claims[i].Need = roundUp(n.need(), slabBytes)
			claims[i].Used = min(roundUp(n.last.Used, slabBytes), roundUp(n.last.Demand, slabBytes))
			claims[i].Max = max(claims[i].Need, claims[i].Used)
		}
	}
	predict.Allocate(uint64(max(slabs, 0)), claims, grants)
	plan := make([]int, len(list))
	for i, g := range grants {
		plan[i] = int(g)
	}
	return plan
}

func roundUp(bytes, slabBytes uint64) uint64 { return (bytes + slabBytes - 1) / slabBytes }

// need is what the node will need, in bytes.
func (n *node) need() uint64 {
	if n.periods <= firstPeriods {
		return n.last.Demand
	}
	return n.prediction.Need() * pageBytes
}

// Prediction implements lease.Planner.
func (p *Planner) Prediction(id lease.NodeID) lease.Prediction {
	n := p.nodes[id]
	if n == nil {
		return lease.Prediction{}
	}
	r := n.prediction.Report()
	return lease.Prediction{By: r.Predictor, Need: n.need(), Periods: uint64(r.Periods), ByNetwork: uint64(r.NetworkPeriods)}
}
