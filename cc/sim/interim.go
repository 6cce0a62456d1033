// SPDX-License-Identifier: Apache-2.0

package sim

// What cc/sim/experiment looks at until the core says how.

// PortNow is a port's bytes sent, bytes queued and rate.
func (n *Net) PortNow(from, to int) (tx uint64, queued int64, bps uint64) {
	pi, err := n.port(from, to)
	if err != nil {
		panic(err)
	}
	p := &n.ports[pi]
	return p.txBytes, p.queueBytes, p.bps
}

// SetTracer makes a port tell a tracer.
func (n *Net) SetTracer(from, to int, t *Tracer) {
	pi, err := n.port(from, to)
	if err != nil {
		panic(err)
	}
	n.ports[pi].tracer = t
}

// SentPackets counts what hosts put on the wire.
func (n *Net) SentPackets() (sum uint64) {
	for i := range n.ports {
		if n.ports[i].host {
			sum += n.ports[i].txPackets
		}
	}
	return sum
}

// Transmissions counts a flow's data packets.
func (f *Flow) Transmissions() uint32 { return f.xmit }
