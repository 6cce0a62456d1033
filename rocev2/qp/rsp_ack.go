// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2"

// Responses leave in the order of their PSNs (IBTA 9.7.5.1): first each READ's and ATOMIC's
// own (rsp_read.go), then one ACK or NAK for all packets before it.

// Limits after which the responder sends an ACK without AckReq. IBTA 9.7.5.1 allows that; it
// keeps a requester going that sets AckReq too seldom.
const (
	ackEvery = 64         // packets; rxe and our requester set AckReq at least so often
	ackDelay = 500 * 1000 // ns after the first unacknowledged packet
)

// noCredits is the syndrome of our ACKs: end-to-end credits are not counted. IBTA 9.7.7.2
// requires them on queue pairs without SRQ, but rxe never sends any. A requester that has
// used up its credits must probe; an RNR NAK gives it a time to try again.
const noCredits = rocev2.Syndrome(rocev2.CreditInvalid)

// ackState is the acknowledgement state: what was acknowledged and what is due.
type ackState struct {
	acked     rocev2.PSN // the last PSN that was acknowledged
	ackDue    bool       // an ACK is due
	repeatDue bool       // an ACK is due even if it repeats the last one, which may be lost
	unacked   uint16     // packets accepted since the last response
	deadline  Time       // latest time at which an ACK is due, or 0

	// A NAK was decided and no expected packet has arrived since: the same gap gets no
	// second NAK (IBTA 9.7.5.2). nakDue: it has not been sent yet.
	nakActive, nakDue bool
	syndrome          rocev2.Syndrome
	psn               rocev2.PSN
	msn               uint32
}

// onAccepted counts an accepted packet.
func (a *ackState) onAccepted(now Time, asked bool) {
	a.unacked++
	switch {
	case asked || a.unacked >= ackEvery:
		a.ackDue = true
	case a.deadline == 0:
		a.deadline = now + ackDelay
	}
}

// requestRepeat makes an ACK of the present state due, even if it repeats the last one.
func (a *ackState) requestRepeat() { a.ackDue, a.repeatDue = true, true }

// setNAK makes a NAK due.
func (a *ackState) setNAK(s rocev2.Syndrome, psn rocev2.PSN, msn uint32) {
	a.nakActive, a.nakDue = true, true
	a.syndrome, a.psn, a.msn = s, psn, msn
}

// cancelNAK cancels the NAK, because the expected packet has arrived.
func (a *ackState) cancelNAK() { a.nakActive, a.nakDue = false, false }

// markAcked notes that a response with this PSN is sent. It acknowledges all earlier PSNs. last: the
// newest packet that was accepted. An ACK stays due for those after psn.
func (a *ackState) markAcked(psn, last rocev2.PSN) {
	if psn.After(a.acked) {
		a.acked = psn
	}
	if psn == last {
		a.unacked, a.deadline = 0, 0
	}
}

// clear notes a response after which no ACK is due.
func (a *ackState) clear(psn rocev2.PSN) {
	a.markAcked(psn, psn)
	a.ackDue, a.repeatDue = false, false
}

// nextAck writes the next response without data.
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

// gapNAK is the syndrome of the NAK that reports a gap.
var gapNAK = rocev2.SyndromeNAK(rocev2.NAKPSNSequence)

// ackDue reports that nextAck has a packet, or an ACK to cancel. The NAK of a gap does not
// count: behind READ responses it waits until another packet arrives. The policy of a plain
// peer takes each such NAK for a loss, and its requester finds a lost READ request by itself.
func (r *responder) ackDue() bool {
	a, s := &r.ack, &r.res
	if !s.responding() {
		return a.ackDue && !a.nakDue || a.nakDue && a.syndrome != gapNAK
	}
	i, at := s.nextResponse()
	res := &s.ring[i]
	return res.atomic || a.ackDue && res.psn.Add(int(at)-1).After(a.acked)
}

// ackBeforeData is nextAck while READs or ATOMICs have no response: results of ATOMICs in
// PSN order, and ACKs for earlier packets.
func (r *responder) ackBeforeData(out *Outbound) bool {
	a := &r.ack
	i, at := r.res.nextResponse()
	res := &r.res.ring[i]
	if res.atomic {
		r.res.sentAtomic(i)
		r.writeResponse(out, rocev2.RCAtomicAck, res.psn, noCredits, res.msn)
		out.Original = res.va
		a.markAcked(res.psn, r.expected.Add(-1))
		return true
	}
	upTo := res.psn.Add(int(at) - 1)
	if !a.ackDue || !upTo.After(a.acked) {
		return false
	}
	a.markAcked(upTo, r.expected.Add(-1))
	r.writeResponse(out, rocev2.RCAck, upTo, noCredits, (res.msn-1)&rocev2.PSNMask)
	return true
}

// writeResponse writes the transport fields that all responses have.
func (r *responder) writeResponse(out *Outbound, op rocev2.Opcode, psn rocev2.PSN, s rocev2.Syndrome, msn uint32) {
	q := r.q
	out.Opcode, out.PSN = op, psn
	out.Solicited, out.AckReq = false, false
	out.PKey, out.DestQP, out.SrcQP = q.attr.PKey, q.attr.DestQPN, q.cfg.QPN
	out.Syndrome, out.MSN = s, msn
	out.PayloadLen, out.Again, out.Lost, out.Missed, out.AH, out.fill = 0, false, false, 0, nil, nil
	out.Payload = nil
	out.BECN, out.OOO, out.Rail = false, nil, 0 // the latest packet may have been one of another transport
}

func (r *responder) deadline() Time { return r.ack.deadline }

func (r *responder) expire(now Time) {
	if r.ack.deadline != 0 && now >= r.ack.deadline {
		r.ack.deadline, r.ack.ackDue = 0, true
	}
}

// discard cancels all responses that are due.
func (r *responder) discard() {
	r.ack = ackState{acked: r.ack.acked}
	r.res.clear()
}
