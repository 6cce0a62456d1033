// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/predict"
)

// Limits of the samples that are kept. With many nodes, each keeps fewer.
const (
	maxKept    = 1 << 16 // samples of all nodes
	maxPerNode = 400     // the newest of a node; more change its prediction little
	minPerNode = 64
)

// samples are the needs of the nodes of a pool, period after period.
type samples map[lease.NodeID][]predict.Sample

// add appends a sample. It removes the oldest ones of the node if it has too many.
func (s samples) add(id lease.NodeID, x predict.Sample) {
	list := append(s[id], x)
	most := max(minPerNode, min(maxPerNode, maxKept/max(1, len(s))))
	if extra := len(list) - most; extra > 0 {
		list = slices.Delete(list, 0, extra)
	}
	s[id] = list
}
