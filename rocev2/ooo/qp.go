// SPDX-License-Identifier: Apache-2.0

package ooo

import (
	"errors"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// QP is one queue pair in out-of-order mode. It starts ready to send and receive, and ends when
// a packet stays unanswered after Config.Tries transmissions, or with Close.
type QP struct {
	cfg   Config
	snd   sender
	rcv   receiver
	ended bool
	turn  uint8 // a bit for each rail: READ responses were first when it was last asked
	rail  int   // rail of the last call of NextData
}

// Errors of Post.
var (
	ErrFull   = errors.New("ooo: as many messages are outstanding as the queue pair was created for: wait for completions")
	ErrEnded  = errors.New("ooo: the queue pair has ended: create another one")
	ErrOp     = errors.New("ooo: only WRITE, with or without notification, and READ without are possible")
	ErrLength = errors.New("ooo: the message has more than 2^24 packets: post several")
	ErrLocal  = errors.New("ooo: the local memory region does not allow this access")
)

// New returns a queue pair, or an error that wraps ErrConfig.
func New(cfg Config) (*QP, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	q := &QP{cfg: cfg}
	q.snd.init(q)
	q.rcv.init(q)
	return q, nil
}

// SetSendPSN sets the first PSN of this side, where it is known later than the rest. Nothing may
// have been posted.
func (q *QP) SetSendPSN(p rocev2.PSN) {
	q.cfg.SendPSN = p
	q.snd.packets.init(&q.cfg)
}

// SetStampOffset sets the clock of the stamps less the clock of Time. Without a call it is 0. The
// echo of a stamp is compared with the time at which a packet was sent.
func (q *QP) SetStampOffset(d Time) { q.snd.stampOffset = d }

// QPN returns the number of the queue pair.
func (q *QP) QPN() uint32 { return q.cfg.QPN }

// Request is a work request: WRITE or READ of one range of memory.
type Request struct {
	ID         uint64
	Op         verbs.Op // OpWrite or OpRead
	Local      verbs.SGE
	RemoteAddr uint64
	RKey       uint32

	// OpWrite only: when all data is in the target's memory, a notification with the descriptor is
	// put on the target's notification receive queue of this number.
	Notify     bool
	Solicited  bool
	Queue      uint32
	Descriptor uint64
}

// Post takes a request. Its completion comes when every packet is answered and, with Notify, the
// notification is acknowledged. After an error nothing was posted.
func (q *QP) Post(r *Request) error {
	if q.ended {
		return ErrEnded
	}
	return q.snd.post(r)
}

// Receive processes one packet that was sent to this queue pair. It has been parsed and its ICRC
// is correct. echoUs is EchoUs of its stamp option, 0 if it has none.
//
// What an answer shows to be lost is found by Expire, when all packets that have arrived were
// processed: the answers that are missing may be among them.
func (q *QP) Receive(now Time, p *rocev2.Packet, echoUs uint32) { q.ReceiveOn(now, 0, p, echoUs) }

// ReceiveOn is Receive for a packet that has arrived on a rail, 0..Config.Rails-1. The response leaves
// on the same one.
func (q *QP) ReceiveOn(now Time, rail int, p *rocev2.Packet, echoUs uint32) {
	if q.ended {
		return
	}
	switch p.Opcode() {
	case rocev2.OpOWrite, rocev2.OpOReadReq, rocev2.OpONotify:
		q.rcv.request(rail, p, echoUs)
	case rocev2.OpOAck, rocev2.OpOReadResp, rocev2.OpONotifyAck, rocev2.OpONak:
		q.snd.unpack(now, p)
	default:
		q.cfg.Count.Malformed++
	}
}

// EchoUs returns T1 of a stamp in the unit of OACK, 0 if the stamp has none.
func EchoUs(s rocev2.Stamp) uint32 {
	if s.Flags&rocev2.StampT1 == 0 {
		return 0
	}
	return microseconds(Time(s.T1))
}

// microseconds returns the time of a stamp as OACK carries it: modulo 2^48 ns, in microseconds,
// modulo 2^32, and never 0.
func microseconds(t Time) uint32 {
	return max(1, uint32((uint64(t)&rocev2.StampTimeMask)/1000))
}

// NextAck writes the next OACK, ONOTIFY_ACK or ONAK to o and reports whether there was one. These
// responses are not paced.
func (q *QP) NextAck(o *Outbound) bool { return !q.ended && q.rcv.nextResponse(o) }

// NextData writes the next OWRITE, OREAD_REQ, ONOTIFY or OREAD_RESP to o. It returns false if no
// packet may be sent now; Receive, Expire and Post may change that. It asks the rails in turn, from the one
// after that of the last packet on.
func (q *QP) NextData(now Time, o *Outbound) bool {
	for range q.cfg.Rails {
		q.rail = (q.rail + 1) % q.cfg.Rails
		if q.NextDataOn(now, q.rail, o) {
			return true
		}
	}
	return false
}

// NextDataOn is NextData for the packets of one rail.
func (q *QP) NextDataOn(now Time, rail int, o *Outbound) bool {
	if q.ended {
		return false
	}
	q.turn ^= 1 << rail
	if q.turn>>rail&1 != 0 {
		return q.rcv.nextRead(rail, o) || q.snd.next(now, rail, o)
	}
	return q.snd.next(now, rail, o) || q.rcv.nextRead(rail, o)
}

// Deadline returns when Expire must be called, or 0.
func (q *QP) Deadline() Time {
	if q.ended {
		return 0
	}
	return q.snd.deadline()
}

// Expire handles the timers that have expired at now; an early call does nothing.
func (q *QP) Expire(now Time) {
	if !q.ended {
		q.snd.expire(now)
	}
}

// Close ends the queue pair: all outstanding messages complete as flushed.
func (q *QP) Close() { q.end(verbs.StatusWRFlushed) }

// Ended reports whether the queue pair has ended.
func (q *QP) Ended() bool { return q.ended }

// end completes all messages, the oldest outstanding one with this status.
func (q *QP) end(first verbs.Status) {
	if q.ended {
		return
	}
	q.ended = true
	q.snd.flush(first)
}
