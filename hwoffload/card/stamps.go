// SPDX-License-Identifier: Apache-2.0

package card

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Timestamps of the data path (S1.2 to S1.4): packets to a node whose entry of the destination
// table has the capability leave with the option, and arriving ones update the entry of their
// source, as bpf/lib/egress.h and ingress.h do.

// echoMaxAge is how old a stamp may be to be echoed still (bpf/lib/dest.h), ns.
const echoMaxAge = 1_000_000_000

// time is the time of the card's clock: that of NewAt, or else that of the frames.
func (d *dataPath) time(now qp.Time) uint64 {
	if d.m.clock != nil {
		return d.m.now()
	}
	return uint64(now)
}

// nodeOf returns the number of the node with the source address of a packet, or 0.
func (d *dataPath) nodeOf(p *rocev2.Packet) int {
	if d.nodes == nil {
		d.readNodes()
	}
	return d.nodes[p.Src()]
}

// readNodes reads block nodes, which the driver has changed.
func (d *dataPath) readNodes() {
	d.nodes = map[netip.Addr]int{}
	n := regs.NodesOf(d.in)
	for i := range regs.NodesNodeCount {
		if n.Node(i).Valid() {
			d.nodes[regs.AddrOf(n.Addr(i), n.AddrLow(i))] = i + 1
		}
	}
}

// seen is what measure has found out of a packet.
type seen struct {
	node     int // source of the packet, 0 = none that is known
	accepted bool
	stamp    rocev2.Stamp
	rtt      int64 // measured by its echo, ns; 0 = none
}

// measure updates the entry of the source of a packet.
func (d *dataPath) measure(p *rocev2.Packet, now qp.Time) (of seen) {
	if of.node = d.nodeOf(p); of.node == 0 {
		return of
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
	of.stamp = in.Stamp
	of.accepted, of.rtt = d.m.receive(of.node, &in, d.time(now))
	return of
}

// stampFor counts a packet to a node and returns the option that it leaves with, or nil: the peer
// does not understand it, or it does not fit the port's MTU. size is the IP length without it.
func (d *dataPath) stampFor(node uint32, size, mtu int, now qp.Time) *rocev2.Stamp {
	if node == 0 || node > regs.DestCount {
		return nil
	}
	e := regs.DestOf(d.in, int(node)-1)
	at := d.time(now)
	e.SetTxPackets(e.TxPackets() + 1)
	e.SetTxBytes(e.TxBytes() + uint64(size))
	e.SetLastTxNs(at)
	e.SetQueuedWord(e.QueuedWord().WithQueued(1))
	if e.CapsWord().Caps()&capStamp == 0 || size+rocev2.StampLen > mtu {
		e.SetTxUnstamped(e.TxUnstamped() + 1)
		return nil
	}
	d.stamp = rocev2.Stamp{Flags: rocev2.StampT1, Token: e.TxToken(), T1: at}
	t1, inTx := e.PeerT1Ns(), uint64(e.InTxNs())
	if e.EchoGuard() == ^(t1^inTx) && diff48(at, t1+inTx) < echoMaxAge {
		d.stamp.Flags |= rocev2.StampEcho
		d.stamp.EchoT1, d.stamp.EchoT2 = t1, t1+inTx
	}
	if e.QueuedWord().CePending() != 0 {
		e.SetQueuedWord(e.QueuedWord().WithCePending(0))
		d.stamp.Flags |= rocev2.StampCE
	}
	e.SetWinDueWord(e.WinDueWord().WithWinDue(1))
	return &d.stamp
}
