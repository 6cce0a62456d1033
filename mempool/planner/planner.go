// SPDX-License-Identifier: Apache-2.0

// Package planner divides a pool among its nodes by what each will need (S4.2): the predictions are those
// of mempool/predict, by a small neural network for each node with a guard. Internal to this project. A
// Planner is the Planner of a lease.Config.
//
// It keeps the samples of all nodes over restarts of the server: the network of a node that comes back
// continues with them. All networks begin with the weights of the package predict.
//
// Files: planner.go plans; samples.go keeps samples, state.go stores them.
package planner

import (
	"context"
	"sync"
	"time"

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

// Config are the properties of a Planner that stores the samples of its nodes.
type Config struct {
	File   string        // file with the samples, of mode 0600; "" = they are not stored
	Every  time.Duration // time between two stores of new samples; 0 = a minute
	Report func(error)   // called by Run if samples cannot be stored; nil = no reports
}

// Planner implements lease.Planner. Run runs at the same time as its other methods.
type Planner struct {
	c      Config
	config predict.Config
	stored uint64 // changes in the file; Run only
	warned bool   // a warning was logged that the file cannot be written; Run only

	mu      sync.Mutex // guards the fields below
	nodes   map[lease.NodeID]*node
	samples samples
	resting samples // samples of the file; nodes that may be resumed
	changes uint64
}

var (
	_ lease.Planner = (*Planner)(nil)
	_ lease.Resumer = (*Planner)(nil)
)

type node struct {
	prediction *predict.Node
	last       lease.Usage
	periods    int
	byNetwork  uint64 // periods that were predicted by a neural network
}

// New returns a Planner that knows no node and stores nothing.
func New() *Planner {
	return &Planner{config: predict.DefaultConfig(), nodes: map[lease.NodeID]*node{}, samples: samples{}, resting: samples{}}
}

// Open returns a Planner that continues with the samples of its file, if there is one. Its Run stores them.
func Open(c Config) (*Planner, error) {
	if c.Every == 0 {
		c.Every = time.Minute
	}
	if c.Report == nil {
		c.Report = func(error) {}
	}
	p := New()
	p.c = c
	if c.File == "" {
		return p, nil
	}
	return p, p.load()
}

// Run stores the samples until ctx ends. It is called once, after the table was restored.
func (p *Planner) Run(ctx context.Context) {
	p.mu.Lock()
	if len(p.resting) > 0 { // nodes that were not resumed
		p.resting = nil
		p.changes++
	}
	p.mu.Unlock()
	t := time.NewTicker(p.c.Every)
	defer t.Stop()
	for {
		p.store()
		select {
		case <-ctx.Done():
			p.store()
			return
		case <-t.C:
		}
	}
}

// Observe implements lease.Planner. The network of the node learns from it.
func (p *Planner) Observe(id lease.NodeID, u lease.Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.node(id)
	leased := pages(u.Leased)
	// A node's report is bounded by the pool, so the sample is valid.
	s := predict.Sample{Demand: min(pages(u.Demand), predict.MaxPages), Touched: min(pages(u.Used), leased), Leased: leased}
	if n.prediction.Observe(s) != nil {
		return
	}
	n.last = u
	n.periods++
	if n.prediction.ByNetwork() {
		n.byNetwork++
	}
	p.samples.add(id, s)
	p.changes++
}

// Resume implements lease.Resumer. The samples of the node are those of the file.
func (p *Planner) Resume(id lease.NodeID, u lease.Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.node(id)
	n.last = u
	list := p.resting[id]
	delete(p.resting, id)
	for _, s := range list {
		p.samples.add(id, s)
		_ = n.prediction.Observe(s) // it was valid before
	}
	n.periods = len(list)
}

// node returns a node, which may be new. The planner is locked.
func (p *Planner) node(id lease.NodeID) *node {
	n := p.nodes[id]
	if n == nil {
		prediction, err := predict.NewNode(p.config, nil)
		if err != nil {
			panic(err) // the default configuration is valid
		}
		n = &node{prediction: prediction}
		p.nodes[id] = n
	}
	return n
}

func pages(bytes uint64) uint64 { return (bytes + pageBytes - 1) / pageBytes }

// Forget implements lease.Planner.
func (p *Planner) Forget(id lease.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.nodes, id)
	delete(p.samples, id)
	p.changes++
}

// Plan implements lease.Planner. Each node gets what it will need, or what it used if that is more, as far as
// the slabs suffice; then all get equal shares, and none more than that. What nobody needs stays free.
func (p *Planner) Plan(slabs int, slabBytes uint64, list []lease.Need) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
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
	keep(plan, slabs, slabBytes, list)
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
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.nodes[id]
	if n == nil {
		return lease.Prediction{}
	}
	return lease.Prediction{By: n.prediction.Choice(), Need: n.need(), Periods: uint64(n.periods), ByNetwork: n.byNetwork}
}
