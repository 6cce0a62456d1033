// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/softroce/softroce-xdp/cc/priority"
	"github.com/softroce/softroce-xdp/cc/sim/quantity"
	"github.com/softroce/softroce-xdp/loader/rate"
)

// Rate is bits per second, written as 100M or 2.5G.
type Rate uint64

// UnmarshalYAML reads a rate; the error has its line.
func (r *Rate) UnmarshalYAML(n *yaml.Node) error {
	v, err := rate.Parse(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*r = Rate(v)
	return nil
}

// prioritized: the file says something of the node's priority.
func (n *Node) prioritized() bool { return n.Level != 0 || n.Min != 0 || n.Max != 0 }

// Prioritized reports whether a node file gives priorities: then they count for all.
func Prioritized(list []Node) bool {
	return slices.ContainsFunc(list, func(n Node) bool { return n.prioritized() })
}

func (n *Node) checkPriority() error {
	if n.Level > priority.Levels {
		return fmt.Errorf("level %d: levels are 1 (the highest) to %d", n.Level, priority.Levels)
	}
	if n.Max != 0 && n.Min > n.Max {
		return fmt.Errorf("min %s is above max %s: lower one or raise the other", quantity.ExactRate(uint64(n.Min)), quantity.ExactRate(uint64(n.Max)))
	}
	return nil
}

// CheckMinimums refuses nodes whose minimums do not fit the capacity that they share,
// bits per second: they could not be kept. node is the own number: what it has for
// others is not sent by itself.
func CheckMinimums(list []Node, node uint32, capacity uint64) error {
	sum := uint64(0)
	for _, n := range list {
		if n.Number != node {
			sum += uint64(n.Min) // each at most 1e14
		}
	}
	if sum > capacity {
		return fmt.Errorf("the minimums of all nodes are %s together, and there are %s to share: lower some, or raise --rate or priority-capacity",
			quantity.ExactRate(sum), quantity.ExactRate(capacity))
	}
	return nil
}
