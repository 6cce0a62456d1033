// SPDX-License-Identifier: Apache-2.0

package xdpbench

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// A Change is one kind of packet through the present programs and those of an earlier version.
type Change struct {
	Row             // figures of the present programs
	Before  float64 // nanoseconds a packet of the earlier ones over the empty program
	Changes []float64
}

// Change returns the median of the differences of all rounds, nanoseconds a packet.
func (c *Change) Change() float64 { return median(c.Changes) }

// turnsPerRound is how often both versions run in a round.
const turnsPerRound = 31

// Against measures stamped packets through the present programs and through those of the bench
// object file of an earlier version, in turns. Each round gives one difference of medians.
func Against(file string, rounds int) ([]Change, error) {
	undo, err := pin()
	if err != nil {
		return nil, err
	}
	defer undo()
	spec, err := ebpf.LoadCollectionSpec(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	earlier, err := newScene(spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	defer earlier.close()
	if spec, err = LoadBench(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	present, err := newScene(spec)
	if err != nil {
		return nil, err
	}
	defer present.close()
	var changes []Change
	for range rounds {
		was, err := earlier.stamped()
		if err != nil {
			return nil, err
		}
		is, err := present.stamped()
		if err != nil {
			return nil, err
		}
		for range turnsPerRound {
			for i := range is {
				if err := was[i].run(); err != nil {
					return nil, err
				}
				if err := is[i].run(); err != nil {
					return nil, err
				}
			}
		}
		for i := range is {
			if len(changes) < len(is) {
				changes = append(changes, Change{})
			}
			c := &changes[i]
			c.Row, c.Before = is[i].row, was[i].ns()
			c.Ns = is[i].ns()
			c.Changes = append(c.Changes, c.Ns-c.Before)
		}
	}
	return changes, nil
}
