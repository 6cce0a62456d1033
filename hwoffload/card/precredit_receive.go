// SPDX-License-Identifier: Apache-2.0

package card

import (
	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/creditwire"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// onControl takes a CREDIT_GRANT or CREDIT_RETURN of a node.
func (c *credits) onControl(pkt *rocev2.Packet, s *seen, now qp.Time) {
	c.shown.stale = true
	p := c.peer(uint32(s.node))
	if p == nil || !s.accepted || pkt.Src() != p.path.dst || pkt.Dst() != p.path.src {
		c.end.Counts.Ignored++
		return
	}
	if b := pkt.CreditReturn(); b != nil { // also of a node that is not used any more
		p.Return(int64(now), creditwire.Return(b))
		return
	}
	b := pkt.CreditGrant()
	if b != nil && !p.Enabled() && len(p.Flows()) > 0 && !c.closing {
		p.Implied = true
		c.update(p)
	}
	if b == nil || !p.Enabled() {
		c.end.Counts.Ignored++
		return
	}
	g := creditwire.Grant(b)
	if g.Open {
		p.Opened()
	}
	p.Grant(int64(now), g)
}

// onReceived takes a packet of a node after its queue pair has processed it. inFlight: bytes in
// flight to the node before. fresh: the queue pair has taken data, for the first time.
func (c *credits) onReceived(x *queuePair, pkt *rocev2.Packet, s *seen, inFlight uint64, fresh bool, now qp.Time) {
	c.shown.stale = true
	p := x.credit.peer
	if !p.Enabled() {
		c.unblock(p)
		return
	}
	k := precredit.Credit{Bytes: s.stamp.Credit, Seq: s.stamp.CreditSeq}
	has := s.accepted && s.stamp.Flags&rocev2.StampCredit != 0
	switch info := pkt.Opcode().Info(); info.Operation {
	case rocev2.OperationAck, rocev2.OperationAtomicAck, rocev2.OperationReadResponse:
		p.Answer(int64(now), &x.credit.Flow, precredit.Answer{
			Credit: k, HasCredit: has && info.Operation != rocev2.OperationReadResponse, RTTNs: s.rtt,
			InFlight: inFlight, RateBps: c.d.rateOf(uint32(p.ID)),
		})
	case rocev2.OperationSend, rocev2.OperationWrite:
		first := info.Position == rocev2.PosFirst || info.Position == rocev2.PosOnly
		p.Data(int64(now), precredit.Arrival{Bytes: uint32(pkt.PayloadLen()), Credit: k, HasCredit: has, First: first, Fresh: fresh})
	}
}
