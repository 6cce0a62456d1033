// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// requester is the send queue: work requests posted, packets sent, packets acknowledged.
// Its counterpart is the responder of the peer.
//
// Packets are numbered from 0 at the first PSN of the connection, in 64 bits, so that no
// number wraps; psn and unwrapPSN convert. Three numbers divide them, as in TCP:
//
//	sndUna  the peer has executed all packets before it
//	sndNxt  is sent next; less than sndMax during retransmission
//	sndMax  was never sent
//
// A SEND or WRITE is done when sndUna has passed it. A READ or ATOMIC is done when its data
// has arrived, which may be later.
type requester struct {
	q *QP

	// The queue, by index; slots are ring[index & mask].
	ring []wqe
	head uint32 // oldest work request that has not completed
	cur  uint32 // the work request of sndNxt
	tail uint32 // the next one to be posted
	ssn  uint32 // SSN of the next message, see req_credit.go

	internals uint32 // requests of PostInternal in the queue
	gone      uint32 // packets before sndMax that are not in flight: the peer has refused or lost them (inflightEnd)

	sndUna, sndNxt, sndMax uint64

	haltAt       uint64 // no packet from here on is sent: the memory of a work request is bad
	sinceAck     uint32 // packets since the last AckReq
	window       window
	reads        readList
	scoreboard   *scoreboard // Selective: the packets received after sndUna, or nil
	rnrSlowStart uint64      // limit of packets after sndUna, following an RNR NAK; 0: none

	rto    rtoState
	now    Time // time of the last call, for fillPayload
	credit credit

	tlpPending         bool // a tail loss probe is due
	tlpOutstanding     bool // a probe was sent, and no response since
	suspectSpurious    bool // packets are sent again because of silence, perhaps needlessly
	silentAfterTimeout bool // no response since the last timeout
	draining           bool // SQD, EventQPDrained not reported yet

	firstSlot [1]wqe // the ring while one work request is enough

	nakAt             Time // time of the last handled NAK PSN, and its packet
	nakFor            uint64
	recoveryPoint     uint64 // sndMax when the last loss was detected
	tlpPSN            uint64 // the packet of the last probe
	rnrRejectedBefore uint64 // sndMax at the last RNR NAK, or 0: the peer rejected or dropped earlier packets
	rnrSlowStartEnd   uint64
	word              [8]byte
}

// start applies the attributes of RTR to RTS.
func (r *requester) start() { r.begin(1) }

func (r *requester) begin(ssn uint32) {
	r.haltAt = noHalt
	r.ssn = ssn
	r.window.start()
}

// reset discards everything, without completions (IBTA 10.3.1).
func (r *requester) reset() {
	r.setGone(0)
	*r = requester{q: r.q}
}

// drain is RTS to SQD: messages that have begun continue, no other message begins.
func (r *requester) drain() {
	r.draining = true
	r.notifyDrained()
}

const noHalt = 1<<64 - 1

// psn returns the PSN of packet n.
func (r *requester) psn(n uint64) rocev2.PSN {
	return (r.q.attr.SQPSN + rocev2.PSN(n&rocev2.PSNMask)) & rocev2.PSNMask
}

// unwrapPSN returns the packet with this PSN that is nearest to sndUna. It may be
// negative. Packet and sndUna are never more than 2^23 apart (IBTA 9.7.1).
func (r *requester) unwrapPSN(psn rocev2.PSN) int64 {
	return int64(r.sndUna) + int64(psn.Diff(r.psn(r.sndUna)))
}

// receive processes a response.
func (r *requester) receive(now Time, p *rocev2.Packet) {
	q := r.q
	if q.cfg.Type != verbs.RC || q.state != verbs.StateRTS && q.state != verbs.StateSQD {
		q.cfg.Count.Ignored++
		return
	}
	r.now = now
	if q.flight != nil && q.flight.silence.since != 0 {
		r.rto.timing = false // the response may be for a packet that was sent after the timed one
	}
	before := r.sndUna
	switch p.Opcode().Info().Operation {
	case rocev2.OperationAck:
		r.receiveAck(now, p)
	case rocev2.OperationReadResponse:
		r.receiveRead(now, p)
	case rocev2.OperationAtomicAck:
		r.receiveAtomic(now, p)
	default:
		r.receiveSACK(now, p)
	}
	if !q.exact || r.sndUna != before { // anybody may have sent a packet that acknowledges nothing
		r.endSilence(now)
	}
}

// next writes the next packet, if one may be sent.
func (r *requester) next(now Time, out *Outbound) bool {
	switch r.q.state {
	case verbs.StateRTS, verbs.StateSQD:
	default:
		return false
	}
	if r.head == r.tail {
		return false
	}
	r.now = now
	if r.q.cfg.Type == verbs.RC {
		return r.nextRC(now, out)
	}
	return r.nextUnreliable(now, out)
}
