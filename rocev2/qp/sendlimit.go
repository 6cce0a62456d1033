// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2/verbs"

// SendLimit is the reason why NextData has no packet. QP.SendLimit returns the one that
// binds. The send path decides by the same functions: messageLimit, localLimit, ownEnd,
// Flight.room and creditLimit.
//
// READ responses have none of these limits. Retransmissions of single packets, READs and
// probes (nextRetransmit) have LimitState and LimitRNR only. Packets that go-back-N sends
// again have no limit of the destination.
//
// The last three are the engine's. A queue pair does not know them, and QP.SendLimit does not
// return them (nic.QP.SendLimit does).
type SendLimit uint8

// The reasons. Owner is who sets the limit.
//
//	reason                 limit, unit                    owner           lifted by
//	LimitState             RTS or SQD                     application     Modify
//	LimitNoWork            work requests not sent yet     application     PostSend
//	LimitRNR               wait of the RNR NAK, ns        peer            time
//	LimitDraining          SQD begins no message          application     Modify to RTS
//	LimitFence             all READs and ATOMICs done     application     their responses
//	LimitRdAtomic          MaxRdAtomic, requests          Modify          the oldest's response
//	LimitLocalInv          all earlier requests done      application     their ACKs
//	LimitLossWindow        window.size, packets           requester       ACKs
//	LimitRNRSlowStart      rnrSlowStart, packets          requester       ACKs
//	LimitSACKWindow        sackWindow, packets            peer's buffer   the gap is filled
//	LimitReadWindow        1.5 maxWindow, packets         requester       READ responses
//	LimitPSNRange          MaxOutstanding, packets        IBTA 9.7.1      ACKs
//	LimitHalted            haltAt, a packet number        requester       never: ERR follows
//	LimitCredits           MSN of the last ACK + credits  peer            an ACK with credits
//	LimitInflight          Flight's limit, packets        destination     ACKs, responses
//	LimitCongestionWindow  Flight.SetWindow, bytes        policy          ACKs, a larger window
//	LimitDestQueue              other queue pairs are before   destination     Flight.ServeNext
//	LimitFirstFlight       large flow without pre-credit  engine          an ACK of the destination
//	LimitPacer             rate of the destination, bit/s policy          time, a larger rate
//	LimitSocket            TX frames of the AF_XDP socket engine          frames that the kernel gives back
const (
	NotLimited SendLimit = iota
	LimitState
	LimitNoWork
	LimitRNR
	LimitDraining
	LimitFence
	LimitRdAtomic
	LimitLocalInv
	LimitLossWindow
	LimitRNRSlowStart
	LimitSACKWindow
	LimitReadWindow
	LimitPSNRange
	LimitHalted
	LimitCredits
	LimitInflight
	LimitCongestionWindow
	LimitDestQueue
	LimitFirstFlight
	LimitPacer
	LimitSocket
)

var sendLimitNames = [...]string{
	"not limited", "state", "no work", "RNR wait", "draining", "fence", "MaxRdAtomic", "local invalidate",
	"loss window", "RNR slow start", "SACK window", "READ window", "PSN range", "halted", "credits",
	"in-flight limit", "congestion window", "destination queue", "first flight", "pacer", "socket",
}

func (l SendLimit) String() string {
	if int(l) < len(sendLimitNames) {
		return sendLimitNames[l]
	}
	return "unknown limit"
}

// SendLimit returns why NextData would have no packet at now, or NotLimited. It changes
// nothing.
func (q *QP) SendLimit(now Time) SendLimit {
	if q.rsp.readResponseDue() {
		return NotLimited
	}
	return q.req.limitedBy(now)
}

// limitedBy walks the send queue as next does, without its effects.
func (r *requester) limitedBy(now Time) SendLimit {
	rc := r.q.cfg.Type == verbs.RC
	switch {
	case r.q.state != verbs.StateRTS && r.q.state != verbs.StateSQD:
		return LimitState
	case r.head == r.tail:
		return LimitNoWork
	case rc && now < r.rto.rnrUntil:
		return LimitRNR
	case rc && r.retransmitDue():
		return NotLimited
	}
	head, n := r.head, r.sndNxt
	for i := r.cur; i != r.tail; i++ {
		w := r.at(i)
		if w.packets == 0 {
			if why := r.localLimit(w, i == head); why != NotLimited && !w.done {
				return why
			}
			if i == head {
				head++
			}
			continue
		}
		for n < min(r.sndMax, w.end()) {
			next := r.afterDelivered(w, n)
			if next == n {
				break
			}
			n = next
		}
		if n < w.end() {
			return r.packetLimit(w, n)
		}
	}
	return LimitNoWork
}

// packetLimit returns what keeps packet n of w, the next one of the stream.
func (r *requester) packetLimit(w *wqe, n uint64) SendLimit {
	isNew := n == r.sndMax
	if isNew && n == w.first {
		if why := r.messageLimit(w); why != NotLimited {
			return why
		}
	}
	if r.q.cfg.Type != verbs.RC {
		return NotLimited
	}
	if end, why := r.ownEnd(w, n); n >= end {
		return why
	}
	if !isNew {
		return NotLimited
	}
	packets, size := w.packets, uint32(0)
	if !w.isRead() {
		packets, size = 1, w.sizeOf(n, r.q.attr.PMTU)+frameOverhead
	}
	if why := r.q.inflightLimit(packets, size); why != NotLimited {
		return why
	}
	return r.creditLimit(w, n)
}

// messageLimit returns what keeps the next work request from beginning: SQD (IBTA
// 10.3.1), Fence before all READs and ATOMICs have their data (IBTA 10.8.3), or
// MaxRdAtomic.
func (r *requester) messageLimit(w *wqe) SendLimit {
	switch {
	case r.q.state == verbs.StateSQD:
		return LimitDraining
	case w.flags&verbs.Fence != 0 && r.reads.n != 0:
		return LimitFence
	case w.isRead() && r.reads.n >= uint32(r.q.attr.MaxRdAtomic):
		return LimitRdAtomic
	}
	return NotLimited
}

// localLimit returns what keeps a local operation from running. LOCAL_INV follows all
// work requests before it, whose data it may take away (IBTA 10.8.3; rxe does the
// same); oldest means that w is the first that has not completed. A bind follows READs
// and ATOMICs only with Fence.
func (r *requester) localLimit(w *wqe, oldest bool) SendLimit {
	switch {
	case r.q.state == verbs.StateSQD:
		return LimitDraining
	case w.op == verbs.OpLocalInv && !oldest:
		return LimitLocalInv
	case w.flags&verbs.Fence != 0 && r.reads.n != 0:
		return LimitFence
	}
	return NotLimited
}

// ownEnd returns the first packet that must wait by the queue pair's own rules if packet
// n of w is next, and which rule that is.
func (r *requester) ownEnd(w *wqe, n uint64) (end uint64, why SendLimit) {
	end, why = r.sndUna+uint64(r.window.size), LimitLossWindow
	if r.rnrSlowStart != 0 && r.sndUna+r.rnrSlowStart < end {
		end, why = r.sndUna+r.rnrSlowStart, LimitRNRSlowStart
	}
	if r.scoreboard != nil && r.scoreboard.hasGap() && r.sndUna+sackWindow < end {
		end, why = r.sndUna+sackWindow, LimitSACKWindow // the responder drops later packets
	}
	// All PSNs of a READ are outstanding at once.
	oldest, psns := r.oldestOutstanding(), uint64(1)
	if w.isRead() {
		psns = uint64(w.packets)
		if r.reads.n != 0 && n > oldest && n+psns > r.oldestUnanswered()+maxWindow+maxWindow/2 {
			return 0, LimitReadWindow
		}
	}
	if n+psns > oldest+verbs.MaxOutstanding {
		return 0, LimitPSNRange
	}
	if r.haltAt < end {
		end, why = r.haltAt, LimitHalted
	}
	return end, why
}

// sendEnd returns the first packet that must wait. If sndNxt is new, it must also have
// room in the destination's in-flight limiter.
func (r *requester) sendEnd(w *wqe) uint64 {
	end, _ := r.ownEnd(w, r.sndNxt)
	switch {
	case r.sndNxt >= end:
		// The end may have come closer since the last packet was sent, or sndNxt have passed packets that the peer has. None
		// of those outstanding may have requested an ACK: the timer has to run, as in admit.
		if r.sndUna < r.sndMax {
			r.rto.armTail(r.now, r.sndMax-1)
		}
		return end
	case r.sndNxt != r.sndMax:
		return end
	}
	if w.isRead() {
		if r.q.admit(w.packets, 0) == 0 {
			return 0
		}
		return end
	}
	n := r.q.admit(uint32(end-r.sndNxt), w.sizeOf(r.sndNxt, r.q.attr.PMTU)+frameOverhead)
	return min(end, r.sndNxt+uint64(n))
}

// readyToSend reports that the next packet may leave by the queue pair's own rules. Only
// limits of its destination can still keep it.
func (r *requester) readyToSend() bool {
	if r.cur == r.tail || r.rto.rnrUntil != 0 {
		return false
	}
	w := r.at(r.cur)
	if w.packets == 0 || r.sndNxt == r.sndMax && r.sndNxt == w.first && r.messageLimit(w) != NotLimited {
		return false
	}
	end, _ := r.ownEnd(w, r.sndNxt)
	return r.sndNxt < end
}

// creditLimit returns LimitCredits if packet n, which is new, takes a receive that the
// peer has not announced. One packet at a time may leave nevertheless (credit).
func (r *requester) creditLimit(w *wqe, n uint64) SendLimit {
	if r.beyondCredits(w, n) && r.credit.limited && r.sndUna <= r.credit.at {
		return LimitCredits
	}
	return NotLimited
}

// beyondCredits reports whether packet n is new and takes a receive beyond the peer's
// credits.
func (r *requester) beyondCredits(w *wqe, n uint64) bool {
	return w.takesReceive(n) && n == r.sndMax && !r.credit.covers(w.ssn)
}

// inflightLimit returns which limit of the destination keeps n packets of size bytes
// each (Flight.room).
func (q *QP) inflightLimit(n, size uint32) SendLimit {
	f := q.flight
	switch {
	case f == nil:
		return NotLimited
	case f.room(n, size) == 0:
		if size != 0 && f.packets < f.limit {
			return LimitCongestionWindow
		}
		return LimitInflight
	case !f.mayServe(q, n, size):
		return LimitDestQueue
	}
	return NotLimited
}

// oldestOutstanding returns the first packet whose response is not complete.
func (r *requester) oldestOutstanding() uint64 {
	if r.reads.n != 0 {
		return min(r.at(r.reads.first).first, r.sndUna)
	}
	return r.sndUna
}

// oldestUnanswered returns the first packet without any response. For a READ that is the
// first missing packet of its response.
func (r *requester) oldestUnanswered() uint64 {
	if r.reads.n == 0 {
		return r.sndUna
	}
	w := r.at(r.reads.first)
	return min(r.sndUna, w.first+uint64(w.received))
}
