// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// opcodes of RC by operation and place in the message: first, middle, last, only.
// UC has the same with bit 5 (IBTA 9.2.1).
var opcodes = [...][4]rocev2.Opcode{
	verbs.OpSend:        {rocev2.RCSendFirst, rocev2.RCSendMiddle, rocev2.RCSendLast, rocev2.RCSendOnly},
	verbs.OpSendImm:     {rocev2.RCSendFirst, rocev2.RCSendMiddle, rocev2.RCSendLastImm, rocev2.RCSendOnlyImm},
	verbs.OpSendInv:     {rocev2.RCSendFirst, rocev2.RCSendMiddle, rocev2.RCSendLastInv, rocev2.RCSendOnlyInv},
	verbs.OpWrite:       {rocev2.RCWriteFirst, rocev2.RCWriteMiddle, rocev2.RCWriteLast, rocev2.RCWriteOnly},
	verbs.OpWriteImm:    {rocev2.RCWriteFirst, rocev2.RCWriteMiddle, rocev2.RCWriteLastImm, rocev2.RCWriteOnlyImm},
	verbs.OpRead:        {3: rocev2.RCReadRequest},
	verbs.OpCompareSwap: {3: rocev2.RCCompareSwap},
	verbs.OpFetchAdd:    {3: rocev2.RCFetchAdd},
}

// nextRC writes the next packet of a reliable connection: retransmissions first
// (nextRetransmit), then the stream of packets in order.
func (r *requester) nextRC(now Time, out *Outbound) bool {
	c := &r.rto
	if c.rnrUntil != 0 {
		if now < c.rnrUntil {
			return false
		}
		r.endRNRWait(now)
	}
	if (r.tlpPending || r.reads.requested != 0 || r.scoreboard != nil) && r.nextRetransmit(now, out) {
		return true
	}
	for r.cur != r.tail {
		w := r.at(r.cur)
		switch {
		case w.packets == 0:
			if w.done {
				r.cur++
			} else if !r.local(now, w) {
				return false
			}
			continue
		case r.sndNxt >= w.end():
			r.cur++
			continue
		case r.sndNxt < r.sndMax:
			if r.skipDelivered(w) {
				continue
			}
		case r.sndNxt == w.first && r.messageLimit(w) != NotLimited:
			return false
		}
		end := r.sendEnd(w)
		if r.sndNxt >= end {
			return false
		}
		ask := r.sndNxt+1 >= end
		if r.beyondCredits(w, r.sndNxt) {
			if r.creditLimit(w, r.sndNxt) != NotLimited {
				return false
			}
			r.credit.limited, r.credit.at = true, r.sndNxt
			ask = true
		}
		r.emit(now, out, r.cur, w, r.sndNxt, ask)
		return true
	}
	return false
}

// skipDelivered moves sndNxt over packets that need not be sent again: packets that the
// responder has buffered, and READs whose request it has executed (req_read.go).
func (r *requester) skipDelivered(w *wqe) bool {
	n := r.sndNxt
	r.sndNxt = r.afterDelivered(w, n)
	return r.sndNxt != n
}

// afterDelivered returns n, or the next packet if packet n of w need not be sent again.
func (r *requester) afterDelivered(w *wqe, n uint64) uint64 {
	switch {
	case w.isRead() && (n > w.first || w.done):
		return w.end()
	case r.scoreboard != nil && r.scoreboard.has(n):
		if w.isRead() {
			return w.end()
		}
		return n + 1
	}
	return n
}

// emit writes packet n of w, the work request at index i. The packet requests an ACK at the
// end of a message, after ackEvery packets, and if ask is set.
func (r *requester) emit(now Time, out *Outbound, i uint32, w *wqe, n uint64, ask bool) {
	q := r.q
	again, first := n < r.sndMax, r.noAckRequested()
	at := uint32(n - w.first)
	last := n+1 == w.end()
	place := 1
	switch {
	case w.packets == 1 || w.isRead():
		place, last = 3, true
	case at == 0:
		place = 0
	case last:
		place = 2
	}
	r.header(out, w, opcodes[w.op][place], r.psn(n))
	if r.gone != 0 { // of a READ, one packet: the rest counts from the first response on
		r.extendInflight(min(n+1, r.sndMax))
	}
	out.Again, out.Lost = again, again && !r.silentAfterTimeout && n >= r.rnrRejectedBefore
	if out.Lost && w.op != verbs.OpRead {
		out.Missed = 1
	}
	out.Solicited = last && w.flags&verbs.Solicited != 0
	next := n + 1
	if w.isRead() {
		next = w.end()
		out.PayloadLen, out.AckReq = 0, true
		if !again {
			r.reads.add(r, i)
		} else if w.op == verbs.OpRead {
			w.requestedTo, w.requestedAt, w.onePacket, w.timed = 1, now, true, false // see responder.replayRead
		}
	} else {
		off := at << (7 + q.attr.PMTU)
		out.PayloadLen = int(min(w.length-off, 128<<q.attr.PMTU))
		out.fill, out.wqe, out.off = r, i, off
		if !again {
			q.addInflightBytes(int64(out.PayloadLen) + frameOverhead)
		}
		r.sinceAck++
		out.AckReq = ask || r.sinceAck >= r.window.ackEvery() || last && !r.follows(i)
	}
	if n == r.sndNxt {
		r.sndNxt = next
		if last || w.isRead() {
			r.cur = i + 1
		}
	}
	r.sndMax = max(r.sndMax, next)
	switch {
	case out.AckReq:
		r.sinceAck = 0
		r.rto.armAckTimer(now, n, again, first, w.isRead())
	case last:
		r.rto.armTail(now, n)
	}
	if again && r.scoreboard != nil {
		r.scoreboard.onRetransmit(n, r.sndMax)
	}
	r.count(out)
}

// requestAckNow sets AckReq in the packet that emit has just written.
func (r *requester) requestAckNow(now Time, out *Outbound) {
	n := uint64(r.unwrapPSN(out.PSN))
	out.AckReq, r.sinceAck = true, 0
	r.rto.armAckTimer(now, n, out.Again, r.noAckRequested(), false)
}

// follows reports whether the message after the one at index i can be sent at once. Then
// one ACK serves both: an ACK costs each side as much as a small message. If that message
// is not sent after all, the timer is armed and a probe requests the ACK.
func (r *requester) follows(i uint32) bool {
	if i+1 == r.tail || r.sinceAck >= r.q.cfg.AckPackets {
		return false
	}
	w := r.at(i + 1)
	return w.packets != 0 && w.flags&verbs.Fence == 0 && r.messageLimit(w) == NotLimited
}

func (r *requester) count(out *Outbound) {
	c := r.q.cfg.Count
	c.SentPackets++
	c.SentBytes += uint64(out.PayloadLen)
	if out.Again {
		c.SentAgain++
	}
}

// header writes the fields of all requests, and of the headers that op has.
func (r *requester) header(out *Outbound, w *wqe, op rocev2.Opcode, psn rocev2.PSN) {
	q := r.q
	out.Opcode, out.PSN = op, psn
	out.PKey, out.DestQP, out.SrcQP = q.attr.PKey, q.attr.DestQPN, q.cfg.QPN
	out.BECN, out.MigReq, out.OOO, out.Rail = false, false, nil, 0
	out.Payload, out.AH, out.Missed = nil, nil, 0
	out.VA, out.RKey, out.DMALen = w.va, w.rkey, w.length
	out.Imm = w.imm
	switch w.op {
	case verbs.OpSendInv:
		out.RKey = w.imm
	case verbs.OpCompareSwap, verbs.OpFetchAdd:
		out.SwapAdd, out.Compare = w.swapAdd, w.compare
	}
}
