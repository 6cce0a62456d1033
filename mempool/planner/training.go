// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/predict"
)

// firstTraining is the number of samples before the first training, and the least between two.
const firstTraining = 600

// Task is what a Trainer trains with.
type Task struct {
	Config predict.Config        `json:"config"`
	Seed   uint64                `json:"seed"`
	Start  *predict.NetworkState `json:"start,omitempty"` // the present first weights; nil: those of the package
	Traces []savedSamples        `json:"traces"`
}

// Result is what a Trainer has made. Losses are those of the samples that it did not train with (predict.Loss).
type Result struct {
	Weights predict.NetworkState `json:"weights"`
	Loss    float64              `json:"loss"`
	Present float64              `json:"present_loss"` // of the present first weights
}

// Trainer trains a network. It takes long, and uses time that nobody else needs (Process).
type Trainer func(ctx context.Context, t Task) (Result, error)

// Origin says where the weights come from with which the networks of nodes begin.
type Origin struct {
	// Trainings is the number of the training that made them; 0: they are those of the package.
	Trainings uint64 `json:"trainings"`
	Samples   int    `json:"samples"` // that they were trained and checked with
	// Loss and Before are the losses of these weights and of those before them, on samples that the training
	// did not have.
	Loss   float64 `json:"loss"`
	Before float64 `json:"loss_before"`
}

func (o Origin) String() string {
	if o.Trainings == 0 {
		return "synthetic"
	}
	return fmt.Sprintf("pool, training %d", o.Trainings)
}

// Run stores the samples and trains first weights with them, until ctx ends. It is called once, after the
// table was restored.
func (p *Planner) Run(ctx context.Context) {
	p.mu.Lock()
	for _, id := range sortedIDs(p.resting) { // nodes that were not resumed
		p.keepGone(p.resting[id])
	}
	p.resting = nil
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
		if err := p.train(ctx); err != nil && ctx.Err() == nil {
			p.c.Report(fmt.Errorf("the training of the predictions has failed: %w", err))
		}
	}
}

// train trains when enough samples are new, and takes the weights if they are better.
func (p *Planner) train(ctx context.Context) error {
	p.mu.Lock()
	due := p.c.Train != nil && p.fresh >= max(firstTraining, p.samples.kept/2)
	if !due {
		p.mu.Unlock()
		return nil
	}
	p.fresh = 0
	p.changes++
	t := Task{Config: p.config, Seed: trainingSeed, Start: nil}
	if p.start != nil {
		s := p.start.State()
		t.Start = &s
	}
	kept, traces := p.samples.kept, p.samples.all()
	p.trainings++
	p.mu.Unlock()
	for _, list := range traces {
		t.Traces = append(t.Traces, saved(list))
	}
	ctx, cancel := context.WithTimeout(ctx, trainingTime)
	defer cancel()
	r, err := p.c.Train(ctx, t)
	if err != nil {
		return err
	}
	if !(r.Loss < r.Present) {
		return nil // what the nodes have is better
	}
	n, err := predict.RestoreNetwork(r.Weights)
	if err != nil {
		return err
	}
	return p.adopt(n, Origin{Samples: kept, Loss: r.Loss, Before: r.Present})
}

const (
	trainingSeed = 1
	trainingTime = 30 * time.Minute
)

// adopt makes a network that of all nodes: each node begins again, with its samples.
func (p *Planner) adopt(start *predict.Network, o Origin) error {
	p.mu.Lock()
	o.Trainings = p.origin.Trainings + 1
	p.start, p.origin = start, o
	p.changes++
	ids := sortedIDs(p.nodes)
	p.mu.Unlock()
	for _, id := range ids {
		if err := p.restart(id, start); err != nil {
			return err
		}
	}
	return nil
}

// restart replays the samples of a node with another network. The planner is not locked meanwhile: at
// the end it follows with the samples that have come since.
func (p *Planner) restart(id lease.NodeID, start *predict.Network) error {
	prediction, err := predict.NewNode(p.config, start)
	if err != nil {
		return err
	}
	done := uint64(0)
	for round := 1; ; round++ {
		p.mu.Lock()
		n, t := p.nodes[id], p.samples.nodes[id]
		if n == nil || t == nil {
			p.mu.Unlock()
			return nil // it is gone
		}
		list := t.since(done)
		if len(list) == 0 || round == catchUp {
			replay(prediction, list)
			n.prediction, n.weights = prediction, p.origin.String()
			p.mu.Unlock()
			return nil
		}
		done = t.total
		p.mu.Unlock()
		replay(prediction, list)
	}
}

// catchUp is the round of a restart in which the planner stays locked: few samples can be left by then.
const catchUp = 4

// since returns a copy of the samples after the first ones, as far as they are kept and count.
func (t *trace) since(first uint64) []predict.Sample {
	n := min(t.total-first, uint64(min(len(t.list), maxReplay)))
	return append([]predict.Sample{}, t.list[uint64(len(t.list))-n:]...)
}

// maxReplay is how many samples a node begins with: more change little.
const maxReplay = 400

func replay(n *predict.Node, list []predict.Sample) {
	for _, s := range list {
		_ = n.Observe(s) // it was valid before
	}
}
