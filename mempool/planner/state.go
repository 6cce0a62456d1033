// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/softroce/softroce-xdp/internal/statefile"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/predict"
)

// stateVersion is the version of the file of samples.
const stateVersion = 1

// state is the file of samples.
type state struct {
	Version int                   `json:"version"`
	Origin  Origin                `json:"origin"`
	Weights *predict.NetworkState `json:"weights,omitempty"` // of Origin; nil: those of the package
	Fresh   int                   `json:"fresh"`             // samples since the last training
	Nodes   []savedNode           `json:"nodes"`
	Gone    []savedSamples        `json:"gone"`
}

type savedNode struct {
	ID      lease.NodeID `json:"id"`
	Samples savedSamples `json:"samples"`
}

// savedSamples has demand, touched and leased pages of each period.
type savedSamples [][3]uint64

func saved(list []predict.Sample) savedSamples {
	out := make(savedSamples, len(list))
	for i, s := range list {
		out[i] = [3]uint64{s.Demand, s.Touched, s.Leased}
	}
	return out
}

// samples leaves out samples that cannot be true: nothing can be trained with them.
func (s savedSamples) samples() []predict.Sample {
	out := make([]predict.Sample, 0, len(s))
	for _, x := range s {
		if sample := (predict.Sample{Demand: x[0], Touched: x[1], Leased: x[2]}); sample.Check() == nil {
			out = append(out, sample)
		}
	}
	return out
}

// load reads the file of samples, if there is one.
func (p *Planner) load() error {
	b, err := os.ReadFile(p.c.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var s state
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("file of samples %s: %w: remove it to begin without samples", p.c.File, err)
	}
	if s.Version != stateVersion {
		return fmt.Errorf("file of samples %s: version %d, and this program has version %d: remove it to begin without samples", p.c.File, s.Version, stateVersion)
	}
	p.fresh = max(0, s.Fresh)
	for _, n := range s.Nodes {
		p.resting[n.ID] = n.Samples.samples()
	}
	for _, g := range s.Gone {
		p.keepGone(g.samples())
	}
	if s.Weights == nil {
		return nil
	}
	// A network with other inputs is of another version of the predictor: the samples train a new one.
	if n, err := predict.RestoreNetwork(*s.Weights); err == nil && n.Inputs() == predict.Inputs {
		p.start, p.origin = n, s.Origin
	}
	return nil
}

func (p *Planner) keepGone(list []predict.Sample) {
	if len(list) >= minGoneKept {
		p.samples.gone = append(p.samples.gone, list[max(0, len(list)-maxPerNode):])
		p.samples.kept += min(len(list), maxPerNode)
		p.samples.limit(&trace{})
	}
}

// store writes the file of samples, if there are new ones.
func (p *Planner) store() {
	if p.c.File == "" {
		return
	}
	p.mu.Lock()
	now, changes := p.state(), p.changes
	p.mu.Unlock()
	if changes == p.stored {
		return
	}
	b, err := json.Marshal(now)
	if err == nil {
		err = statefile.Write(p.c.File, b)
	}
	if err != nil {
		if !p.warned {
			p.c.Report(fmt.Errorf("the file of samples cannot be written: %w", err))
		}
		p.warned = true
		return
	}
	p.stored, p.warned = changes, false
}

// state is what store writes. The planner is locked.
func (p *Planner) state() state {
	s := state{Version: stateVersion, Origin: p.origin, Fresh: p.fresh, Nodes: []savedNode{}, Gone: []savedSamples{}}
	if p.start != nil {
		w := p.start.State()
		w.Mean, w.Variance = nil, nil
		s.Weights = &w
	}
	for _, id := range sortedIDs(p.samples.nodes) {
		s.Nodes = append(s.Nodes, savedNode{id, saved(p.samples.nodes[id].list)})
	}
	for _, g := range p.samples.gone {
		s.Gone = append(s.Gone, saved(g))
	}
	return s
}
