// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
)

// Time is a moment in nanoseconds on the engine's monotonic clock. Zero is no
// moment at all.
type Time int64

// Config is what stays the same as long as a queue pair lives.
type Config struct {
	QPN       uint32
	Type      Type
	SignalAll bool
	PD        uint32

	// AckPackets is how many packets may leave without asking for an ACK although
	// messages end in them, while others follow at once. 0: every message asks.
	AckPackets uint32

	// Limits of the queues. Rings grow with use up to these.
	MaxSend, MaxSendSGE int
	MaxInline           int

	SendCQ CompletionQueue
	Count  *Counters // shared by the queue pairs of an engine
	Memory mem.Memory

	MaxRecv, MaxRecvSGE int // see MaxSend

	RecvCQ CompletionQueue
	SRQ    *SRQ        // or nil
	Held   *HoldPool   // for packets beyond a gap; nil: a pool of its own, when needed
	Notify func(Event) // or nil; called in the engine's thread
}

// QP is one queue pair. With thousands of them in turns none is in the caches any
// more, so what every message touches comes first in each of these structs, and what
// few do last.
type QP struct {
	cfg   Config
	attr  Attr
	state State

	queued          bool    // in line for flight
	inflightPackets uint32  // of flight, what is this one's
	inflightBytes   uint32  // the same in bytes
	flight          *Flight // or nil

	wantPackets, wantSize uint32 // in line: the room that its next packets need
	next, prev            *QP    // in line

	req requester
	rsp responder
}

// New makes a queue pair in RESET.
func New(cfg Config) *QP {
	q := new(QP)
	q.Init(cfg)
	return q
}

// Init is New for a queue pair that is part of something larger, so that all of it is
// in one place. A QP must not be copied afterwards.
func (q *QP) Init(cfg Config) {
	*q = QP{cfg: cfg, state: Reset}
	q.req.q, q.rsp.q = q, q
	q.rsp.reset()
}

// Config is what it was made with. Any goroutine may read it.
func (q *QP) Config() *Config { return &q.cfg }

// QPN is the number of the queue pair.
func (q *QP) QPN() uint32 { return q.cfg.QPN }

// Type is its service.
func (q *QP) Type() Type { return q.cfg.Type }

// State is where it stands in the state table.
func (q *QP) State() State { return q.state }

// Attr returns its attributes as Modify set them, with the PSNs of now.
func (q *QP) Attr() Attr {
	a := q.attr
	a.State = q.state
	if q.state != Reset && q.state != Init {
		a.RQPSN = q.rsp.expected
	}
	if q.state >= RTS {
		a.SQPSN = q.req.psn(q.req.sndMax)
	}
	return a
}

// Receive takes one packet that was sent to this queue pair: parsed, with a good
// ICRC, and of a P_Key that matches.
// Whatever it holds, the queue pair answers by the rules or ignores it.
func (q *QP) Receive(now Time, p *rocev2.Packet) {
	info := p.Opcode().Info()
	switch {
	case q.isResponse(p.Opcode(), info):
		q.req.receive(now, p)
		q.updateInflight()
	default:
		q.rsp.receive(now, p)
	}
}

// isResponse tells packets for the requester from those for the responder.
func (q *QP) isResponse(op rocev2.Opcode, info *rocev2.OpcodeInfo) bool {
	switch info.Operation {
	case rocev2.OperationAck, rocev2.OperationAtomicAck, rocev2.OperationReadResponse:
		return true
	}
	return op == rocev2.OpSACK
}

// NextAck writes the next answer that is not data (ACK, NAK, atomic result, SACK)
// to out and returns whether there was one. Answers are not paced.
func (q *QP) NextAck(now Time, out *Outbound) bool { return q.rsp.nextAck(now, out) }

// NextData writes the next packet of data to out: a request or a READ response, in
// turns. It returns false if there is nothing that may be sent now; after a
// Receive, Expire or Post it may be otherwise.
func (q *QP) NextData(now Time, out *Outbound) bool {
	if q.rsp.readFirst {
		q.rsp.readFirst = false
		return q.rsp.nextRead(now, out) || q.nextRequest(now, out)
	}
	q.rsp.readFirst = true
	return q.nextRequest(now, out) || q.rsp.nextRead(now, out)
}

func (q *QP) nextRequest(now Time, out *Outbound) bool {
	if !q.req.next(now, out) {
		return false
	}
	q.updateInflight()
	return true
}

// AskAck has the next new packet of a SEND or WRITE ask for an ACK, and be waited for.
func (q *QP) AskAck() { q.req.requestAckNext() }

// AskNow has the packet that NextData has just written ask for an ACK, if it is one of a
// SEND or WRITE: the caller will not ask for the next one soon.
func (q *QP) AskNow(now Time, out *Outbound) {
	if q.cfg.Type == RC && out.fill == filler(&q.req) && !out.AckReq {
		q.req.requestAckNow(now, out)
	}
}

// Deadline is when Expire must be called, or 0.
func (q *QP) Deadline() Time {
	a, b := q.req.deadline(), q.rsp.deadline()
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Expire does what is due at now; calling it early does nothing.
func (q *QP) Expire(now Time) {
	q.req.expire(now)
	q.rsp.expire(now)
	q.updateInflight()
}

// PostSend puts a work request on the send queue. The error says which rule it
// breaks, and nothing was queued then. In ERR it completes as flushed.
func (q *QP) PostSend(wr *SendWR) error { return q.req.post(wr) }

// PostRecv puts a work request on the receive queue.
func (q *QP) PostRecv(wr *RecvWR) error { return q.rsp.post(wr) }

// fail moves the queue pair to ERR: every work request completes, in order. The one
// that failed says why, the others are flushed, those before it too: a READ whose
// answer was lost can have it no more. For the responder: answers that are due, last
// of them the NAK that tells the peer, still leave.
func (q *QP) fail(now Time, e Event) {
	if q.state == Err || q.state == Reset {
		return
	}
	q.state = Err
	q.req.flush(now)
	q.rsp.flush(now)
	q.updateInflight()
	q.notify(e)
}

func (q *QP) notify(e Event) {
	if e != 0 && q.cfg.Notify != nil {
		q.cfg.Notify(e)
	}
}
