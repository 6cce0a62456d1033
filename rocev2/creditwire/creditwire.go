// SPDX-License-Identifier: Apache-2.0

// Package creditwire translates between package precredit and packets: the bodies of CREDIT_GRANT and
// CREDIT_RETURN (docs/reference/wire-format.md), the credit in the stamps of data and ACKs, and the work requests
// that pre-credit is for.
// Internal to this project. The engine and the card's model use it, so both send and understand the
// same.
package creditwire

import (
	"time"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// PutGrant makes o a CREDIT_GRANT. The caller adds addresses and stamp.
func PutGrant(o *rocev2.Datagram, g precredit.Grant) {
	*o = rocev2.Datagram{Opcode: rocev2.OpCreditGrant, DestQP: rocev2.ControlQPN, LifeNs: uint64(g.LifeNs)}
	o.Credit = rocev2.CreditFields{Epoch: g.Epoch, Limit: g.Limit, Seq: g.Seq}
	if g.Open {
		o.Credit.Flags |= rocev2.CreditOpen
	}
	if g.Recall {
		o.Credit.Flags |= rocev2.CreditRecall
	}
}

// PutReturn makes o a CREDIT_RETURN. The caller adds addresses and stamp.
func PutReturn(o *rocev2.Datagram, m precredit.Return) {
	*o = rocev2.Datagram{Opcode: rocev2.OpCreditReturn, DestQP: rocev2.ControlQPN, Sent: m.Sent, Void: m.Void}
	o.Credit = rocev2.CreditFields{Epoch: m.Epoch, Limit: m.Limit, Seq: m.Seq}
	if m.Expired {
		o.Credit.Flags |= rocev2.CreditExpired
	}
	if m.Unknown {
		o.Credit.Flags |= rocev2.CreditUnknown
	}
}

// Grant reads a CREDIT_GRANT. A life beyond an hour is taken for one hour.
func Grant(b rocev2.CreditGrant) precredit.Grant {
	f := b.Fields()
	return precredit.Grant{
		Epoch: f.Epoch, Limit: f.Limit, Seq: f.Seq, Open: f.Flags&rocev2.CreditOpen != 0, Recall: f.Flags&rocev2.CreditRecall != 0,
		LifeNs: int64(min(b.LifeNs(), uint64(time.Hour))),
	}
}

// Return reads a CREDIT_RETURN.
func Return(b rocev2.CreditReturn) precredit.Return {
	f := b.Fields()
	return precredit.Return{
		Epoch: f.Epoch, Limit: f.Limit, Seq: f.Seq, Sent: b.Sent(), Void: b.Void(),
		Expired: f.Flags&rocev2.CreditExpired != 0, Unknown: f.Flags&rocev2.CreditUnknown != 0,
	}
}

// Stamp writes the credit of a packet of a flow into the option that the packet has, if any, and notes losses.
// ahead: the packet is one of Port.SendData.
func Stamp(now int64, p *precredit.Peer, f *precredit.Flow, o *qp.Outbound, ahead bool) {
	if o.Lost {
		p.NoteLoss()
	}
	if o.Stamp == nil {
		return
	}
	var c precredit.Credit
	var credited bool
	switch o.Opcode.Info().Operation {
	case rocev2.OperationSend, rocev2.OperationWrite:
		c, credited = p.Sent(now, f, uint32(o.PayloadLen), ahead, o.Again)
	case rocev2.OperationAck, rocev2.OperationAtomicAck:
		c, credited = p.SentAck(now)
	}
	if credited {
		o.Stamp.Flags |= rocev2.StampCredit
		o.Stamp.Credit, o.Stamp.CreditSeq = c.Bytes, c.Seq
	}
}

// Work is the work request as package precredit needs it, without First and Idle. The features of
// S5.3 are its length, its operation, and the bytes of registered memory that it names. ok is
// false for one that pre-credit is not for: the data of a READ comes from the peer, which cannot
// plan for it.
func Work(wr *verbs.SendWR) (w precredit.Work, ok bool) {
	verb := precredit.VerbSend
	switch wr.Op {
	case verbs.OpSend, verbs.OpSendImm, verbs.OpSendInv:
	case verbs.OpWrite, verbs.OpWriteImm:
		verb = precredit.VerbWrite
	default:
		return precredit.Work{}, false
	}
	n := uint64(len(wr.Data))
	for i := range wr.SGL {
		n += uint64(wr.SGL[i].Len)
	}
	return precredit.Work{Bytes: n, Features: precredit.Features{TotalBytes: n, PostedBytes: n, Verb: verb, RegionBytes: n}}, true
}
