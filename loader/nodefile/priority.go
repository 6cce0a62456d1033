// SPDX-License-Identifier: Apache-2.0

package nodefile

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/softroce/softroce-xdp/cc/priority"
	"github.com/softroce/softroce-xdp/internal/quantity"
)

// Rate is bits per second, written as 100M or 2.5G.
type Rate uint64

// UnmarshalYAML reads a rate; the error has its line.
func (r *Rate) UnmarshalYAML(n *yaml.Node) error {
	v, err := quantity.ParseRate(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*r = Rate(v)
	return nil
}

// String is the inverse of UnmarshalYAML, without rounding.
func (r Rate) String() string { return quantity.ExactRate(uint64(r)) }

// Prioritized reports whether any node has a priority. If one has, priorities apply to
// all nodes.
func (f *File) Prioritized() bool {
	return slices.ContainsFunc(f.Nodes, func(n Node) bool { return n.Level != 0 || n.Min != 0 || n.Max != 0 })
}

// EachPriority calls define with the priority of each node and the keys of its addresses.
func (f *File) EachPriority(define func(priority.Node, ...priority.Key)) {
	for i := range f.Nodes {
		x := &f.Nodes[i]
		n := priority.Node{ID: x.Number, Level: x.Level, Min: uint64(x.Min), Max: uint64(x.Max)}
		if n.Max == 0 {
			n.Max = priority.All
		}
		var keys []priority.Key
		for _, addr := range x.Addresses {
			keys = append(keys, addr.As16())
		}
		define(n, keys...)
	}
}

// Sharer returns the policy that shares a link by the priorities (S4.5). It returns nil if no node
// has one, or if f is nil.
func (f *File) Sharer() *priority.Sharer {
	if f == nil || !f.Prioritized() {
		return nil
	}
	s := priority.NewSharer()
	f.EachPriority(s.Define)
	return s
}

// judge sets the level of a node that has none by its users and its importance.
func (n *Node) judge() {
	if n.Level == 0 && (n.Users != 0 || n.Importance != 0) {
		n.Level = priority.Judge(n.Users, n.Importance)
	}
}

func (n *Node) checkPriority() error {
	if n.Level != 0 && (n.Users != 0 || n.Importance != 0) {
		return errors.New("level, and users or importance, which give a level: remove one of them")
	}
	if n.Importance > priority.MostImportant {
		return fmt.Errorf("importance %d: it is at most %d", n.Importance, priority.MostImportant)
	}
	if n.Level > priority.Levels {
		return fmt.Errorf("level %d: levels are 1 (the highest) to %d", n.Level, priority.Levels)
	}
	if n.Max != 0 && n.Min > n.Max {
		return fmt.Errorf("min %s is above max %s: lower one or raise the other", n.Min, n.Max)
	}
	return nil
}

// CheckMinimums returns an error if the minimums do not fit the capacity that the nodes
// share, in bits per second. self is the number of this node, whose minimum does not
// count: it sends nothing to itself.
func (f *File) CheckMinimums(self uint32, capacity uint64) error {
	sum := Rate(0)
	for _, n := range f.Nodes {
		if n.Number != self {
			sum += n.Min // each at most 1e14
		}
	}
	if sum > Rate(capacity) {
		return fmt.Errorf("the minimums of all nodes are %s together, and there are %s to share: lower some, or raise --rate or priority-capacity",
			sum, Rate(capacity))
	}
	return nil
}
