// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/softroce/softroce-xdp/internal/files"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/predict"
)

// stateVersion is the version of the file of samples.
const stateVersion = 1

// state is the file of samples.
type state struct {
	Version int         `json:"version"`
	Nodes   []savedNode `json:"nodes"`
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

// samples leaves out samples that cannot be true.
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
	for _, n := range s.Nodes {
		list := n.Samples.samples()
		p.resting[n.ID] = list[max(0, len(list)-maxPerNode):]
	}
	return nil
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
		err = files.WriteState(p.c.File, b)
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
	s := state{Version: stateVersion, Nodes: []savedNode{}}
	for _, id := range slices.Sorted(maps.Keys(p.samples)) {
		s.Nodes = append(s.Nodes, savedNode{id, saved(p.samples[id])})
	}
	return s
}
