// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
)

// requester is the send queue: what was posted, what is on its way, what was
// answered. It speaks to responder of the peer.
//
// Packets are counted from 0 at the first PSN of the connection, in 64 bits, so
// that nothing here ever wraps; psn and number translate. Three counts divide them:
//
//	sndUna  the peer has executed everything before it
//	sndNxt  goes next; less than sndMax while packets are sent again
//	sndMax  was never sent
//
// A SEND or WRITE is done when sndUna has passed it, a READ or ATOMIC when its data
// is there, which may be later.
type requester struct {
	q *QP

	// The queue, by index; slots are ring[index & mask].
	ring []wqe
	head uint32 // oldest that is not completed
	cur  uint32 // that sndNxt belongs to
	tail uint32 // next to be posted
	ssn  uint32 // of the next message, see req_credit.go

	sndUna, sndNxt, sndMax uint64

	haltAt       uint64 // nothing from here on is sent: the memory of a work request is bad
	sinceAck     uint32 // packets since one that asked for an ACK
	window       window
	reads        readList
	scoreboard   *scoreboard // Selective: what arrived beyond sndUna, or nil
	rnrSlowStart uint64      // after an RNR NAK: packets beyond sndUna; 0: no limit

	rto    rtoState
	now    Time // of the last call, for fillPayload
	credit credit

	tlpPending         bool // send the oldest packet once more
	tlpOutstanding     bool // it was, and nothing was heard since
	suspectSpurious    bool // silence, and no answer, made us send again from sndUna on
	silentAfterTimeout bool // nothing was heard since a timeout had us send again
	draining           bool // SQD, and EventDrained is still to come

	firstSlot [1]wqe // the ring until more than one is under way

	nakAt             Time // last NAK PSN that was heeded, and for what
	nakFor            uint64
	recoveryPoint     uint64 // packets before it were sent before the last loss was seen
	tlpPSN            uint64 // which packet the probe was
	rnrRejectedBefore uint64 // packets before it were refused by an RNR NAK or came behind such
	rnrSlowStartEnd   uint64
	word              [8]byte
}

// start takes the attributes of RTR to RTS.
func (r *requester) start() { r.begin(1) }

func (r *requester) begin(ssn uint32) {
	r.haltAt = noHalt
	r.ssn = ssn
	r.window.start()
}

// reset forgets everything, without a completion (IBTA 10.3.1).
func (r *requester) reset() { *r = requester{q: r.q} }

// drain is RTS to SQD: messages that have begun go on, no other begins.
func (r *requester) drain() {
	r.draining = true
	r.notifyDrained()
}

const noHalt = 1<<64 - 1

// psn is the PSN of packet n.
func (r *requester) psn(n uint64) rocev2.PSN {
	return (r.q.attr.SQPSN + rocev2.PSN(n&rocev2.PSNMask)) & rocev2.PSNMask
}

// unwrapPSN is the packet nearest to sndUna that has this PSN; it may lie before
// packet 0. No more than 2^23 packets are ever between (IBTA 9.7.1).
func (r *requester) unwrapPSN(psn rocev2.PSN) int64 {
	return int64(r.sndUna) + int64(psn.Diff(r.psn(r.sndUna)))
}

// receive takes an answer.
func (r *requester) receive(now Time, p *rocev2.Packet) {
	q := r.q
	if q.cfg.Type != RC || q.state != RTS && q.state != SQD {
		q.cfg.Count.Ignored++
		return
	}
	r.now = now
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
}

// next writes the next packet, if one may be sent.
func (r *requester) next(now Time, out *Outbound) bool {
	switch r.q.state {
	case RTS, SQD:
	default:
		return false
	}
	if r.head == r.tail {
		return false
	}
	r.now = now
	if r.q.cfg.Type == RC {
		return r.nextRC(now, out)
	}
	return r.nextUnreliable(now, out)
}
