// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// Tracer records what happens at one port, from when Net.Trace made it.
type Tracer struct {
	// Delay is how long packets waited for their turn, in ns.
	Delay Histogram
}

func (t *Tracer) departed(waited tick) { t.Delay.Add(waited.ns()) }

// Trace records the queueing delay of the port of a node towards a neighbour.
func (n *Net) Trace(from, to int) (*Tracer, error) {
	pi, err := n.port(from, to)
	if err != nil {
		return nil, err
	}
	if n.ports[pi].tracer == nil {
		n.ports[pi].tracer, n.ports[pi].traced = &Tracer{}, true
	}
	return n.ports[pi].tracer, nil
}

// PortStats are the counters of one port since the start.
type PortStats struct {
	TxBytes, TxPackets uint64 // total on the wire
	Marks              uint64 // packets marked CE
	Pauses             uint64 // pause frames sent to the other end
	PausedFor          time.Duration
	QueueBytes         int64 // now
	MaxQueueBytes      int64
}

// Port returns the counters of the port of a node towards a neighbour.
func (n *Net) Port(from, to int) (PortStats, error) {
	pi, err := n.port(from, to)
	if err != nil {
		return PortStats{}, err
	}
	return n.portStats(pi), nil
}

func (n *Net) portStats(pi int32) PortStats {
	p := &n.ports[pi]
	paused := p.pausedFor
	if p.paused != 0 {
		paused += n.wheel.now - p.pausedAt
	}
	return PortStats{
		TxBytes: p.txBytes, TxPackets: p.txPackets, Marks: p.marks, Pauses: p.pauses,
		PausedFor: time.Duration(paused.ns()), QueueBytes: p.queueBytes, MaxQueueBytes: p.maxQueue,
	}
}
