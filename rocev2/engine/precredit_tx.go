// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// next sends up to n packets that have pre-credit and returns how many, or 1 if it has not come to the end of
// what may be sent: peers are still ready then, and the endpoint has no deadline for them.
func (c *credits) next(n int) (did int) {
	c.room, c.tries = n, txTries
	c.end.Send(c.now())
	did = n - c.room
	if c.tries < 0 {
		return max(did, 1)
	}
	return did
}

// mayStart blocks large flows without pre-credit in the first flight. The endpoint enqueues them
// again when it ends (Apply).
func (c *credits) mayStart(x *QP) bool {
	if x.credit.held && x.dest.credit.Enabled() {
		return false
	}
	may, ask := x.dest.credit.MayStart(c.now(), &x.credit.Flow)
	if ask {
		x.q.RequestAckNext()
	}
	return may
}

// tclass is the traffic class of a packet (S5.4): what a large flow sends, and a small
// one that goes on for longer than its first round trip, has the DSCP that switches
// serve last, if there is one. Within a queue pair packets move to that class at some
// point and back only when nothing is outstanding, so none overtakes an earlier one in
// switches that serve the other class first. In switches that share between the two it
// may: only queue pairs with SACK are marked.
func (c *credits) tclass(x *QP, o *qp.Outbound, requested uint8) uint8 {
	f := x.credit
	switch o.Opcode.Info().Operation {
	case rocev2.OperationSend, rocev2.OperationWrite:
	case rocev2.OperationReadResponse:
		if p := o.Opcode.Info().Position; p == rocev2.PosFirst || p == rocev2.PosOnly {
			f.served = 0
		}
		return requested
	default:
		return requested
	}
	large := f.Begun() && f.Class() == precredit.Large || f.sent >= uint64(c.sender.BDPBytes)
	f.sent += uint64(o.PayloadLen)
	if c.large == 0 || !x.selective || !large {
		return requested
	}
	f.sent = max(f.sent, uint64(c.sender.BDPBytes)) // it stays so
	x.dest.largeAt = c.e.now
	const ecn = 3
	return c.large<<2 | requested&ecn
}

// omitT1 reports whether a packet's delay does not show the queue that the destination's rate
// fills: the packet passes the large ones. The policy would take the shortest delay for the
// queue's, and find none until packets are lost.
func (c *credits) omitT1(d *dest, tclass uint8, now qp.Time) bool {
	return c.large != 0 && d.largeAt != 0 && now-d.largeAt < largeWindow && tclass>>2 != c.large
}

// largeWindow is for how long after a large packet: two of the agent's.
const largeWindow = qp.Time(20 * time.Millisecond)

// quantum is the polling queue's of S5.6: larger than others' at first, and smaller the more
// was served.
func (c *credits) quantum(x *QP) int32 { return int32(c.poll.Turn(x.credit.served)) }

func (c *credits) onCharged(x *QP, n int) { x.credit.served += uint64(n) }
