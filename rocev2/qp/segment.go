// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
)

// opcodes of RC by operation and place in the message: first, middle, last, only.
// UC has the same with bit 5 (IBTA 9.2.1).
var opcodes = [...][4]rocev2.Opcode{
	OpSend:        {rocev2.RCSendFirst, rocev2.RCSendMiddle, rocev2.RCSendLast, rocev2.RCSendOnly},
	OpSendImm:     {rocev2.RCSendFirst, rocev2.RCSendMiddle, rocev2.RCSendLastImm, rocev2.RCSendOnlyImm},
	OpSendInv:     {rocev2.RCSendFirst, rocev2.RCSendMiddle, rocev2.RCSendLastInv, rocev2.RCSendOnlyInv},
	OpWrite:       {rocev2.RCWriteFirst, rocev2.RCWriteMiddle, rocev2.RCWriteLast, rocev2.RCWriteOnly},
	OpWriteImm:    {rocev2.RCWriteFirst, rocev2.RCWriteMiddle, rocev2.RCWriteLastImm, rocev2.RCWriteOnlyImm},
	OpRead:        {3: rocev2.RCReadRequest},
	OpCompareSwap: {3: rocev2.RCCompareSwap},
	OpFetchAdd:    {3: rocev2.RCFetchAdd},
}

const ucBit = rocev2.UCSendFirst

// nextRC writes the next packet of a reliable connection: what is asked for again
// first, then the stream of packets in order.
func (r *requester) nextRC(now Time, out *Outbound) bool {
	c := &r.clock
	if c.rnrUntil != 0 {
		if now < c.rnrUntil {
			return false
		}
		r.endRNR(now)
	}
	if (r.probe || r.reads.asks != 0 || r.board != nil) && r.nextRepair(now, out) {
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
		case r.nxt >= w.end():
			r.cur++
			continue
		case r.nxt < r.max:
			if r.skip(w) {
				continue
			}
		case r.nxt == w.first && !r.mayBegin(w):
			return false
		}
		limit := r.limit(w)
		if r.nxt >= limit {
			return false
		}
		ask := r.nxt+1 >= limit
		if w.takesReceive(r.nxt) && r.nxt == r.max && !r.credit.covers(w.ssn) {
			if r.credit.limited && r.taken <= r.credit.at { // the one packet is on its way
				return false
			}
			r.credit.limited, r.credit.at = true, r.nxt
			ask = true
		}
		r.emit(now, out, r.cur, w, r.nxt, ask)
		return true
	}
	return false
}

// reach is the packet that must wait by the queue pair's own rules.
func (r *requester) reach(w *wqe) uint64 {
	end := r.taken + uint64(r.window.size)
	if r.ramp != 0 {
		end = min(end, r.taken+r.ramp)
	}
	if r.board != nil && r.board.open() {
		end = min(end, r.taken+holdable) // the responder drops what is beyond
	}
	// All PSNs of a READ are outstanding at once.
	oldest, n := r.oldest(), uint64(1)
	if w.isRead() {
		n = uint64(w.packets)
		if r.reads.n != 0 && r.nxt > oldest && r.nxt+n > r.awaited()+widest+widest/2 {
			return 0
		}
	}
	if r.nxt+n > oldest+maxOutstanding {
		return 0
	}
	return min(end, r.stopAt)
}

// limit is the packet that must wait, if nxt is new also for room in the flight.
func (r *requester) limit(w *wqe) uint64 {
	end := r.reach(w)
	if r.nxt != r.max || r.nxt >= end {
		return end
	}
	if w.isRead() {
		if r.q.mayFly(w.packets, 0) == 0 {
			return 0
		}
		return end
	}
	n := r.q.mayFly(uint32(end-r.nxt), w.sizeOf(r.nxt, r.q.attr.PMTU)+frameBytes)
	return min(end, r.nxt+uint64(n))
}

// ready reports that the next packet may leave by the queue pair's own rules, and only waits
// for its turn among others.
func (r *requester) ready() bool {
	if r.cur == r.tail || r.clock.rnrUntil != 0 {
		return false
	}
	w := r.at(r.cur)
	if w.packets == 0 || r.nxt == r.max && r.nxt == w.first && !r.mayBegin(w) {
		return false
	}
	return r.nxt < r.reach(w)
}

// oldest is the first packet whose answer is outstanding.
func (r *requester) oldest() uint64 {
	if r.reads.n != 0 {
		return min(r.at(r.reads.first).first, r.taken)
	}
	return r.taken
}

// awaited is the first packet that nothing was heard of: of a READ, the first answer.
func (r *requester) awaited() uint64 {
	if r.reads.n == 0 {
		return r.taken
	}
	w := r.at(r.reads.first)
	return min(r.taken, w.first+uint64(w.got))
}

// mayBegin reports whether the next work request may begin, after those before it:
// not in SQD (IBTA 10.3.1), not beyond MaxRdAtomic, and with Fence not before all
// READs and ATOMICs have their data (IBTA 10.8.3).
func (r *requester) mayBegin(w *wqe) bool {
	if r.q.state == SQD {
		return false
	}
	if w.flags&Fence != 0 && r.reads.n != 0 {
		return false
	}
	return !w.isRead() || r.reads.n < uint32(r.q.attr.MaxRdAtomic)
}

// skip moves nxt over packets that need not be sent again: those that the
// responder keeps, and READs whose request it has executed, which reads.go sees to.
func (r *requester) skip(w *wqe) bool {
	n := r.nxt
	switch {
	case w.isRead() && (n > w.first || w.done):
		r.nxt = w.end()
	case r.board != nil && r.board.has(n):
		if r.nxt++; w.isRead() {
			r.nxt = w.end()
		}
	}
	return r.nxt != n
}

// emit writes packet n of w, which is the one at index i. It asks for an ACK with
// the last packet of a message, often enough, and if ask is set.
func (r *requester) emit(now Time, out *Outbound, i uint32, w *wqe, n uint64, ask bool) {
	q := r.q
	again, first := n < r.max, r.unasked()
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
	out.Again, out.Lost = again, again && !r.unheard && n >= r.notTaken
	if out.Lost && w.op != OpRead {
		out.Missed = 1
	}
	out.Solicited = last && w.flags&Solicited != 0
	next := n + 1
	if w.isRead() {
		next = w.end()
		out.PayloadLen, out.AckReq = 0, true
		if !again {
			r.reads.add(r, i)
		} else if w.op == OpRead {
			w.asked, w.askedAt, w.probed = 1, now, true // see responder.repeatRead
		}
	} else {
		off := at << (7 + q.attr.PMTU)
		out.PayloadLen = int(min(w.length-off, 128<<q.attr.PMTU))
		out.fill, out.wqe, out.off = r, i, off
		if !again {
			q.addBytes(int64(out.PayloadLen) + frameBytes)
		}
		r.sinceAck++
		out.AckReq = ask || r.sinceAck >= r.window.ackEvery() || last && !r.follows(i)
	}
	if n == r.nxt {
		r.nxt = next
		if last || w.isRead() {
			r.cur = i + 1
		}
	}
	r.max = max(r.max, next)
	switch {
	case out.AckReq:
		r.sinceAck = 0
		r.clock.awaits(now, n, again, first, w.isRead())
	case last:
		r.clock.expects(now, n)
	}
	if again && r.board != nil {
		r.board.sentAgain(n, r.max)
	}
	r.count(out)
}

// askNow has packet n, which emit has just written, ask for an ACK.
func (r *requester) askNow(now Time, out *Outbound) {
	n := uint64(r.number(out.PSN))
	out.AckReq, r.sinceAck = true, 0
	r.clock.awaits(now, n, out.Again, r.unasked(), false)
}

// follows reports that the message after the one at index i can go at once, so that
// its ACK serves both: an ACK costs the peer, and us, as much as a small message. Should it not go after
// all, the clock runs and a probe asks.
func (r *requester) follows(i uint32) bool {
	if i+1 == r.tail || r.sinceAck >= r.q.cfg.AckPackets {
		return false
	}
	w := r.at(i + 1)
	return w.packets != 0 && w.flags&Fence == 0 && r.mayBegin(w)
}

func (r *requester) count(out *Outbound) {
	c := r.q.cfg.Count
	c.SentPackets++
	c.SentBytes += uint64(out.PayloadLen)
	if out.Again {
		c.SentAgain++
	}
}

// header writes the fields of all requests, and those of the headers that op has.
func (r *requester) header(out *Outbound, w *wqe, op rocev2.Opcode, psn rocev2.PSN) {
	q := r.q
	out.Opcode, out.PSN = op, psn
	out.PKey, out.DestQP, out.SrcQP = q.attr.PKey, q.attr.DestQPN, q.cfg.QPN
	out.BECN, out.MigReq = false, false
	out.Payload, out.AH, out.Missed = nil, nil, 0
	out.VA, out.RKey, out.DMALen = w.va, w.rkey, w.length
	out.Imm = w.imm
	switch w.op {
	case OpSendInv:
		out.RKey = w.imm
	case OpCompareSwap, OpFetchAdd:
		out.SwapAdd, out.Compare = w.swapAdd, w.compare
	}
}

// nextUnreliable writes the next packet of UC or UD. There are no answers: a message
// is done when its last packet has left.
func (r *requester) nextUnreliable(now Time, out *Outbound) bool {
	q := r.q
	for r.cur != r.tail {
		w := r.at(r.cur)
		if w.packets == 0 {
			if !r.local(now, w) {
				return false
			}
			continue
		}
		if q.state == SQD && r.nxt == w.first {
			return false
		}
		n := r.nxt
		at := uint32(n - w.first)
		last := n+1 == w.end()
		off := uint32(0)
		if q.cfg.Type == UD {
			r.header(out, w, rocev2.UDSendOnly, r.psn(n))
			if w.op == OpSendImm {
				out.Opcode = rocev2.UDSendOnlyImm
			}
			ah := &w.x.ah
			out.AH, out.DestQP, out.QKey = ah, ah.QPN, ah.QKey
			if ah.QKey>>31 != 0 { // IBTA 10.2: the queue pair's own
				out.QKey = q.attr.QKey
			}
			out.PayloadLen = int(w.length)
		} else {
			place := 1
			switch {
			case w.packets == 1:
				place = 3
			case at == 0:
				place = 0
			case last:
				place = 2
			}
			r.header(out, w, opcodes[w.op][place]|ucBit, r.psn(n))
			off = at << (7 + q.attr.PMTU)
			out.PayloadLen = int(min(w.length-off, 128<<q.attr.PMTU))
		}
		out.Again, out.Lost, out.AckReq = false, false, false
		out.Solicited = last && w.flags&Solicited != 0
		out.fill, out.wqe, out.off = r, r.cur, off
		r.nxt = n + 1
		r.max, r.taken = r.nxt, r.nxt
		r.count(out)
		if last {
			r.cur++
			if out.PayloadLen == 0 {
				r.left(now)
			}
		}
		return true
	}
	return false
}

// left completes the message of UC or UD whose last packet was just handed out.
func (r *requester) left(now Time) {
	w := r.at(r.head)
	r.head++
	r.complete(w)
	r.idle(now)
}

// local runs a local operation in its turn; false if that has not come, or it
// failed. LOCAL_INV waits for all work requests before it, whose data it may
// take away (IBTA 10.8.3; rxe does the same), a bind only with Fence.
func (r *requester) local(now Time, w *wqe) bool {
	cfg := &r.q.cfg
	if r.q.state == SQD {
		return false
	}
	var f mem.Fault
	switch {
	case w.op == OpLocalInv && r.head != r.cur, w.flags&Fence != 0 && r.reads.n != 0:
		return false
	case w.op == OpLocalInv:
		f = cfg.Memory.InvalidateLocal(cfg.PD, cfg.QPN, w.imm)
	default:
		f = cfg.Memory.BindWindow(cfg.PD, cfg.QPN, w.x.bind)
	}
	if f != mem.FaultNone {
		// Verbs has one status for failed memory management (IBTA 11.6.2).
		r.fault(now, w, MWBindError)
		return false
	}
	w.done = true
	r.cur++
	r.retire(now)
	return true
}
