// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Time is a moment in nanoseconds on the engine's monotonic clock. Zero means no moment.
type Time int64

// CompletionQueue receives completions. The engine implements it.
type CompletionQueue interface {
	Complete(c verbs.Completion)
}

// Config is fixed for the life of a queue pair.
type Config struct {
	QPN       uint32
	Type      verbs.QPType
	SignalAll bool
	PD        uint32

	// AckPackets is the number of packets that may be sent without AckReq although messages
	// end in them, if more packets follow at once. 0: every message requests an ACK.
	AckPackets uint32

	// Limits of the queues. Rings grow with use up to these.
	MaxSend, MaxSendSGE int
	MaxInline           int

	SendCQ CompletionQueue
	Count  *Counters // counters, which queue pairs may share
	Memory mem.Memory

	MaxRecv, MaxRecvSGE int // entries of the receive queue, and SGEs of each; limits as for MaxSend

	RecvCQ  CompletionQueue
	SRQ     *SRQ                  // shared receive queue, or nil
	Reorder *ReorderPool          // pool for out-of-order packets; nil: a pool of its own, when needed
	Notify  func(verbs.EventType) // callback of events, or nil; called in the engine's thread
	First   func()                // callback, or nil; called once after RESET, with the first request, in any state

	// Receives is called when a message needs a receive and none is queued; nil if nobody has others. It
	// may call PostRecv of the queue pair or of the SRQ, and nothing else of them.
	Receives func()
}

// QP is one queue pair. With thousands of active queue pairs none stays in the CPU caches.
// So fields that every message touches come first in each of these structs.
type QP struct {
	cfg   Config
	attr  attributes
	state verbs.State

	queued          bool    // the queue pair is in a queue of flight
	exact           bool    // the packet that is being received may be forged (exact.go)
	inflightPackets uint32  // packets of this queue pair in flight.packets
	inflightBytes   uint32  // bytes of this queue pair in flight.bytes
	longInflight    uint32  // packets of inflightPackets up to the end of the last long READ
	flight          *Flight // flight of the destination, or nil

	wantPackets, wantSize uint32 // queued: the room that the next packets need
	next, prev            *QP    // neighbours in the queue of flight

	req requester
	rsp responder
}

// New returns a queue pair in RESET.
func New(cfg Config) *QP {
	q := new(QP)
	q.Init(cfg)
	return q
}

// Init is New for a queue pair that is a field of a larger struct. A QP must not be copied
// afterwards.
func (q *QP) Init(cfg Config) {
	*q = QP{cfg: cfg, state: verbs.StateReset}
	q.req.q, q.rsp.q = q, q
	q.rsp.reset()
}

// Config returns the configuration. Any goroutine may read it.
func (q *QP) Config() *Config { return &q.cfg }

// QPN returns the number of the queue pair.
func (q *QP) QPN() uint32 { return q.cfg.QPN }

// Type returns the transport service.
func (q *QP) Type() verbs.QPType { return q.cfg.Type }

// State returns the state in the state table (state.go).
func (q *QP) State() verbs.State { return q.state }

// Attr returns the attributes as Modify set them, with the current PSNs.
func (q *QP) Attr() verbs.Attr {
	a := q.attr.all()
	a.State = q.state
	a.Draining = q.state == verbs.StateSQD && q.req.draining
	if q.state != verbs.StateReset && q.state != verbs.StateInit {
		a.RQPSN = q.rsp.expected
	}
	if q.state >= verbs.StateRTS {
		a.SQPSN = q.req.psn(q.req.sndMax)
	}
	return a
}

// Receive processes one packet that was sent to this queue pair. The packet has been
// parsed, its ICRC is correct and its P_Key matches. Everything else is checked here.
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

// isResponse reports whether a packet is for the requester; the others are for the
// responder.
func (q *QP) isResponse(op rocev2.Opcode, info *rocev2.OpcodeInfo) bool {
	switch info.Operation {
	case rocev2.OperationAck, rocev2.OperationAtomicAck, rocev2.OperationReadResponse:
		return true
	}
	return op == rocev2.OpSACK
}

// NextAck writes the next response without data (ACK, NAK, atomic result, SACK) to out
// and reports whether there was one. These responses are not paced.
func (q *QP) NextAck(now Time, out *Outbound) bool { return q.rsp.nextAck(now, out) }

// AckDue reports that NextAck has to be called. Responses leave in PSN order, so NextData may
// be what makes one due: the READ response that it has written was the last one before it. A
// NAK PSN alone does not count: it may wait until another packet arrives.
func (q *QP) AckDue() bool { return q.rsp.ackDue() }

// NextData writes the next packet of data to out: a request or a READ response, by turns.
// It returns false if no packet may be sent now; SendLimit returns why. Receive, Expire,
// PostSend, Modify and Flight.ServeNext may change that.
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

// RequestAckNext sets AckReq in the next new packet of a SEND or WRITE and arms the ACK timer.
func (q *QP) RequestAckNext() { q.req.requestAckNext() }

// RequestAck sets AckReq in the packet that NextData has just written, if it belongs to a SEND
// or WRITE. The engine uses it if it will not call NextData again soon.
func (q *QP) RequestAck(now Time, out *Outbound) {
	if q.cfg.Type == verbs.RC && out.fill == filler(&q.req) && !out.AckReq {
		q.req.requestAckNow(now, out)
	}
}

// Deadline returns when Expire must be called, or 0.
func (q *QP) Deadline() Time {
	a, b := q.req.deadline(), q.rsp.deadline()
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Expire handles the timers that have expired at now; an early call does nothing.
func (q *QP) Expire(now Time) {
	q.req.expire(now)
	q.rsp.expire(now)
	q.updateInflight()
}

// PostSend puts a work request on the send queue. After an error nothing was queued. In
// ERR the work request completes as flushed.
func (q *QP) PostSend(wr *verbs.SendWR) error { return q.req.post(wr) }

// InternalInline is how many bytes of inline data PostInternal takes at least.
const InternalInline = 64

// MaxInternal is how many work requests of PostInternal a send queue has room for.
const MaxInternal = 256

// PostInternal is PostSend for a work request of the NIC itself. It takes no room of the
// application's: up to MaxInternal are on the queue next to Config.MaxSend. Its completion goes to
// sink and not to Config.SendCQ. Inline data may have InternalInline bytes on any queue pair. In ERR, sink is
// called before PostInternal returns.
func (q *QP) PostInternal(wr *verbs.SendWR, sink CompletionQueue) error {
	return q.req.postInternal(wr, sink)
}

// PostRecv puts a work request on the receive queue.
func (q *QP) PostRecv(wr *verbs.RecvWR) error { return q.rsp.post(wr) }

// fail moves the queue pair to ERR: every work request completes, in order. The failed one
// completes with its status, the others as flushed. Earlier ones are flushed too: a READ
// whose response was lost cannot be repeated. Responses of the responder that are due
// still leave; the last is the NAK.
func (q *QP) fail(now Time, e verbs.EventType) {
	if q.state == verbs.StateErr || q.state == verbs.StateReset {
		return
	}
	q.state = verbs.StateErr
	q.req.flush(now)
	q.rsp.flush(now)
	q.updateInflight()
	q.notify(e)
}

func (q *QP) notify(e verbs.EventType) {
	if e != 0 && q.cfg.Notify != nil {
		q.cfg.Notify(e)
	}
}
