// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"
)

// Topology is hosts 0..Hosts-1, switches Hosts..Hosts+Switches-1, and the links
// between them. Every host has one link.
type Topology struct {
	Name            string
	Hosts, Switches int
	Wires           []Wire
	// Bottlenecks are directions that a scenario wants to look at, by name.
	Bottlenecks []Direction
}

// Wire is a link between two nodes, the same in both directions.
type Wire struct {
	A, B int
	Link
}

// Link is what one direction of a wire does to packets.
type Link struct {
	Bps   uint64
	Delay time.Duration
	// Loss is the share of packets that get lost (PFC frames never are), Jitter the
	// most that is added to the delay at random; packets stay in order.
	Loss   float64
	Jitter time.Duration
}

// Direction is one direction of a wire.
type Direction struct {
	Name     string
	From, To int
}

func (t *Topology) validate() error {
	if t.Hosts < 2 || t.Switches < 0 {
		return fmt.Errorf("topology %q has %d hosts and %d switches: it needs two hosts", t.Name, t.Hosts, t.Switches)
	}
	if 2*len(t.Wires) > 1<<16 {
		return fmt.Errorf("topology %q has %d wires: at most %d", t.Name, len(t.Wires), 1<<15)
	}
	links := make([]int, t.Hosts+t.Switches)
	for i, w := range t.Wires {
		for _, v := range []int{w.A, w.B} {
			if v < 0 || v >= len(links) {
				return fmt.Errorf("wire %d ends at node %d: there are nodes 0 to %d", i, v, len(links)-1)
			}
			links[v]++
		}
		if err := w.Link.validate(); err != nil {
			return fmt.Errorf("wire %d from %d to %d: %w", i, w.A, w.B, err)
		}
	}
	for h, c := range links[:t.Hosts] {
		if c != 1 {
			return fmt.Errorf("host %d has %d wires: give it one", h, c)
		}
	}
	return nil
}

func (l *Link) validate() error {
	switch {
	case l.Bps == 0 || l.Bps > 8_000_000_000_000:
		return fmt.Errorf("rate of %d bit/s: use 1 to 8e12", l.Bps)
	case l.Delay < 0 || l.Jitter < 0:
		return fmt.Errorf("delay %v, jitter %v: they cannot be negative", l.Delay, l.Jitter)
	case l.Loss < 0 || l.Loss > 1:
		return fmt.Errorf("loss %g: use 0 to 1", l.Loss)
	}
	return nil
}
