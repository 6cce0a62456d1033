// SPDX-License-Identifier: Apache-2.0

package card

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Timestamps of the data path (S1.2 to S1.4): packets to a node whose entry of the destination
// table has the capability leave with the option, and arriving ones update the entry of their
// source, as bpf/lib/egress.h and ingress.h do.

// echoMaxAge is how old a stamp may be to be echoed still (bpf/lib/dest.h), ns.
const echoMaxAge = 1_000_000_000

// time is the time of the card's clock: that of NewAt, or else that of the frames.
func (d *network) time(now qp.Time) uint64 {
	if d.m.clock != nil {
		return d.m.now()
	}
	return uint64(now)
}

// nodeOf returns the number of the node with the source address of a packet, or 0.
func (d *network) nodeOf(p *rocev2.Packet) int {
	if d.nodes == nil {
		d.readNodes()
	}
	return d.nodes[p.Src()]
}

// readNodes reads block nodes, which the driver has changed.
func (d *network) readNodes() {
	d.nodes = map[netip.Addr]int{}
	n := regs.NodesOf(d.in)
	for i := range regs.NodesNodeCount {
		if n.Node(i).Valid() {
			d.nodes[regs.AddrOf(n.Addr(i), n.AddrLow(i))] = i + 1
		}
	}
}

// measure updates the entry of the source of a packet, and returns what the engine needs of that. The engine judges no
// packet by its token but control packets.
func (d *network) measure(p *rocev2.Packet, now qp.Time) engine.Meta {
	m := engine.Meta{Proven: p.BTH().DestQP() != rocev2.ControlQPN}
	node := d.nodeOf(p)
	if node == 0 {
		return m
	}
	in := Packet{Bytes: uint64(p.IPLen()), CE: p.CE()}
	if s, err := p.Stamp(); err == nil {
		in.Stamp = s
		in.Bytes -= rocev2.StampLen
	}
	switch p.Opcode().Info().Operation {
	case rocev2.OperationAck, rocev2.OperationAtomicAck:
		in.Feedback, in.Syndrome = true, uint8(p.AETH().Syndrome())
	}
	in.Feedback = in.Feedback || p.Opcode() == rocev2.OpSACK
	accepted, rtt := d.m.receive(node, &in, d.time(now))
	if accepted {
		m.Proven, m.RTT = true, qp.Time(rtt)
		m.Flags, m.Credit, m.CreditSeq = in.Stamp.Flags, in.Stamp.Credit, in.Stamp.CreditSeq
	}
	return m
}
