// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/predict"
)

// Limits of the samples that are kept. With many nodes, each keeps fewer.
const (
	maxKept     = 1 << 16 // samples of all nodes
	maxPerNode  = 1024    // the newest of a node
	minPerNode  = 64
	maxGone     = 256 // nodes that are gone
	minGoneKept = 48  // a node that is gone with fewer samples is not kept
)

// samples are what the nodes of a pool needed, period after period.
type samples struct {
	nodes map[lease.NodeID]*trace
	gone  [][]predict.Sample // nodes that are gone, the oldest first
	kept  int                // samples of all
}

// trace has the newest samples of a node.
type trace struct {
	list  []predict.Sample
	total uint64 // samples that were added
}

func newSamples() samples { return samples{nodes: map[lease.NodeID]*trace{}} }

func (s *samples) add(id lease.NodeID, x predict.Sample) {
	t := s.nodes[id]
	if t == nil {
		t = &trace{}
		s.nodes[id] = t
	}
	t.list = append(t.list, x)
	t.total++
	s.kept++
	s.limit(t)
}

// limit removes the oldest samples of a trace, and of nodes that are gone.
func (s *samples) limit(t *trace) {
	most := max(minPerNode, min(maxPerNode, maxKept/max(1, len(s.nodes))))
	if extra := len(t.list) - most; extra > 0 {
		t.list = slices.Delete(t.list, 0, extra)
		s.kept -= extra
	}
	for len(s.gone) > 0 && (s.kept > maxKept || len(s.gone) > maxGone) {
		s.kept -= len(s.gone[0])
		s.gone = slices.Delete(s.gone, 0, 1)
	}
}

// leave keeps the samples of a node that is gone.
func (s *samples) leave(id lease.NodeID) {
	t := s.nodes[id]
	if t == nil {
		return
	}
	delete(s.nodes, id)
	if len(t.list) < minGoneKept {
		s.kept -= len(t.list)
		return
	}
	s.gone = append(s.gone, t.list)
	s.limit(&trace{})
}

// all returns copies of all traces.
func (s *samples) all() [][]predict.Sample {
	var list [][]predict.Sample
	for _, g := range s.gone {
		list = append(list, slices.Clone(g))
	}
	for _, id := range sortedIDs(s.nodes) {
		list = append(list, slices.Clone(s.nodes[id].list))
	}
	return list
}

func sortedIDs[V any](m map[lease.NodeID]V) []lease.NodeID {
	list := make([]lease.NodeID, 0, len(m))
	for id := range m {
		list = append(list, id)
	}
	slices.Sort(list)
	return list
}
