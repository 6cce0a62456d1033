// SPDX-License-Identifier: Apache-2.0

package xdpbench

import (
	"context"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// change is one kind of packet through the present programs and those of an earlier version, both of the last round.
type change struct {
	before, now Row
	more        compare.Series // Differences of medians of each round, nanoseconds a packet.
}

// turnsPerRound is how often both versions run in a round.
const turnsPerRound = 31

// against measures stamped packets through the present programs and through those of the bench
// object file of an earlier version, in turns. Each round gives one difference of medians.
func against(ctx context.Context, file string, rounds int) ([]change, error) {
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
	var changes []change
	for range rounds {
		was, err := earlier.stamped()
		if err != nil {
			return nil, err
		}
		is, err := present.stamped()
		if err != nil {
			return nil, err
		}
		var both []pair // The versions of each packet next to each other.
		for i := range is {
			both = append(both, was[i], is[i])
		}
		runs, err := compare.Turns(ctx, turnsPerRound, candidates(both)...)
		if err != nil {
			return nil, err
		}
		for i := range is {
			if len(changes) < len(is) {
				changes = append(changes, change{})
			}
			c := &changes[i]
			c.before, c.now = was[i].measured(runs[2*i]), is[i].measured(runs[2*i+1])
			c.more = append(c.more, c.now.Ns-c.before.Ns)
		}
	}
	return changes, nil
}
