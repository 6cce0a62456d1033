// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

// Answers leave in the order of their PSNs (IBTA 9.7.5.1): first those of READs and
// ATOMICs (rsp_read.go), each its own, then one ACK or NAK for everything before it.

// What makes the responder answer although nobody asked for it (IBTA 9.7.5.1
// leaves it free; a requester that asks too seldom gets on this way).
const (
	ackEvery = 64         // packets; what rxe and we ask for at the latest
	ackDelay = 500 * 1000 // ns after the first packet without an answer
)

// noCredits is the syndrome of our ACKs: end-to-end credits are not counted. IBTA
// 9.7.7.2 asks for them on queue pairs without SRQ; rxe never sends any, and
// with credits a requester at their end has to probe, where an RNR NAK gives it
// a time to come back.
const noCredits = rocev2.Syndrome(rocev2.CreditInvalid)

// ackState is what the peer knows of our progress, and what it is to learn.
type ackState struct {
	acked     rocev2.PSN // all up to this have been acknowledged
	ackDue    bool       // an ACK is due as far as it may go
	repeatDue bool       // also if it says nothing new: an earlier one was lost
	unacked   uint16     // packets accepted since the last answer
	deadline  Time       // when an answer is due at the latest, or 0

	// A NAK was decided and no packet came in turn since: none more for the same
	// gap (IBTA 9.7.5.2). due: it has not left yet.
	nakActive, nakDue bool
	syndrome          rocev2.Syndrome
	psn               rocev2.PSN
	msn               uint32
}

// onAccepted counts a packet that was accepted.
func (a *ackState) onAccepted(now Time, asked bool) {
	a.unacked++
	switch {
	case asked || a.unacked >= ackEvery:
		a.ackDue = true
	case a.deadline == 0:
		a.deadline = now + ackDelay
	}
}

// requestRepeat has the state acknowledged once more.
func (a *ackState) requestRepeat() { a.ackDue, a.repeatDue = true, true }

// setNAK decides on a NAK.
func (a *ackState) setNAK(s rocev2.Syndrome, psn rocev2.PSN, msn uint32) {
	a.nakActive, a.nakDue = true, true
	a.syndrome, a.psn, a.msn = s, psn, msn
}

// cancelNAK takes a NAK back that the packet it asks for has overtaken.
func (a *ackState) cancelNAK() { a.nakActive, a.nakDue = false, false }

// markAcked notes that an answer with this PSN leaves, which answers all before it.
func (a *ackState) markAcked(psn rocev2.PSN) {
	if psn.After(a.acked) {
		a.acked = psn
	}
	a.unacked, a.deadline = 0, 0
}

// clear notes an answer after which nothing is due.
func (a *ackState) clear(psn rocev2.PSN) {
	a.markAcked(psn)
	a.ackDue, a.repeatDue = false, false
}

// nextAck writes the next answer that is not data.
func (r *responder) nextAck(now Time, out *Outbound) bool {
	a := &r.ack
	if r.res.responding() {
		return r.ackBeforeData(out)
	}
	switch {
	case a.nakDue:
		a.nakDue = false
		r.writeResponse(out, rocev2.RCAck, a.psn, a.syndrome, a.msn)
		a.clear(a.psn.Add(-1))
		return true
	case !a.ackDue:
		return false
	}
	upTo := r.expected.Add(-1)
	changed := a.repeatDue || upTo.After(a.acked)
	a.clear(upTo)
	switch {
	case r.reorder != nil:
		r.sack(out, upTo)
	case changed:
		r.writeResponse(out, rocev2.RCAck, upTo, noCredits, r.msn)
	default:
		return false
	}
	return true
}

// ackBeforeData is nextAck while READs or ATOMICs are unanswered: results of ATOMICs
// in their turn, and ACKs for what came before.
func (r *responder) ackBeforeData(out *Outbound) bool {
	a := &r.ack
	i, at := r.res.nextResponse()
	res := &r.res.ring[i]
	if res.atomic {
		r.res.sentAtomic(i)
		r.writeResponse(out, rocev2.RCAtomicAck, res.psn, noCredits, res.msn)
		out.Original = res.va
		a.markAcked(res.psn)
		return true
	}
	upTo := res.psn.Add(int(at) - 1)
	if !a.ackDue || !upTo.After(a.acked) {
		return false
	}
	a.markAcked(upTo)
	r.writeResponse(out, rocev2.RCAck, upTo, noCredits, (res.msn-1)&rocev2.PSNMask)
	return true
}

// writeResponse writes the transport fields that all answers have.
func (r *responder) writeResponse(out *Outbound, op rocev2.Opcode, psn rocev2.PSN, s rocev2.Syndrome, msn uint32) {
	q := r.q
	out.Opcode, out.PSN = op, psn
	out.Solicited, out.AckReq = false, false
	out.PKey, out.DestQP, out.SrcQP = q.attr.PKey, q.attr.DestQPN, q.cfg.QPN
	out.Syndrome, out.MSN = s, msn
	out.PayloadLen, out.Again, out.Lost, out.Missed, out.AH, out.fill = 0, false, false, 0, nil, nil
	out.Payload = nil
}

func (r *responder) deadline() Time { return r.ack.deadline }

func (r *responder) expire(now Time) {
	if r.ack.deadline != 0 && now >= r.ack.deadline {
		r.ack.deadline, r.ack.ackDue = 0, true
	}
}

// discard drops all answers that are due.
func (r *responder) discard() {
	r.ack = ackState{acked: r.ack.acked}
	r.res.clear()
}
