// SPDX-License-Identifier: Apache-2.0

package sim

// PortView looks at one direction of a link.
type PortView struct{ p *port }

// ViewPort looks at the link from a node to its neighbour.
func (n *Net) ViewPort(from, to int) (PortView, error) {
	pi, err := n.port(from, to)
	if err != nil {
		return PortView{}, err
	}
	return PortView{&n.ports[pi]}, nil
}

// QueueBytes is what waits, in bytes of the wire.
func (v PortView) QueueBytes() int64 { return v.p.queueBytes }

// SentBytes is what was sent so far, in bytes of the wire.
func (v PortView) SentBytes() uint64 { return v.p.txBytes }
