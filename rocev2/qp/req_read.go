// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"encoding/binary"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// READs and ATOMICs, whose responses carry data. A READ response is stored by its PSN, in
// any order. Missing data is requested again with a READ of that range at its original PSN:
// a duplicate request that is a subset of the first (IBTA 9.7.5.1).

// readList is the list of the READs and ATOMICs sent, oldest first. One stays on the list
// until it and all before it have their data. The peer counts in the same way: it keeps the
// last MaxDestRdAtomic requests to repeat their responses, and an old request that misses
// data must be among them.
type readList struct {
	first, last uint32 // indices
	n           uint32
	requested   uint32 // number of READs that have again set
}

func (l *readList) add(r *requester, i uint32) {
	if l.n == 0 {
		l.first = i
	} else {
		r.at(l.last).nextRead = i
	}
	l.last = i
	l.n++
}

// find returns the work request of packet n, or nil.
func (l *readList) find(r *requester, n int64) *wqe {
	i := l.first
	for range l.n {
		w := r.at(i)
		if n < int64(w.first) {
			return nil
		}
		if n < int64(w.end()) {
			return w
		}
		i = w.nextRead
	}
	return nil
}

// toRequest returns the oldest work request that is to be requested again, or nil.
func (l *readList) toRequest(r *requester) *wqe {
	if l.requested == 0 {
		return nil
	}
	i := l.first
	for range l.n {
		w := r.at(i)
		if w.again && w.status == verbs.StatusSuccess {
			return w
		}
		i = w.nextRead
	}
	return nil
}

// removeDone removes finished work requests from the head of the list.
func (l *readList) removeDone(r *requester) {
	for l.n != 0 && r.at(l.first).done {
		l.first = r.at(l.first).nextRead
		l.n--
	}
}

func (l *readList) request(w *wqe) {
	if !w.again {
		w.again = true
		l.requested++
	}
}

func (l *readList) clear(w *wqe) {
	if w.again {
		w.again = false
		l.requested--
	}
}

// matchResponse returns the work request of a response. It returns nil if none is
// outstanding for it, or if the response is malformed.
func (r *requester) matchResponse(now Time, p *rocev2.Packet) (w *wqe, n uint64) {
	at := r.unwrapPSN(p.BTH().PSN())
	w = r.reads.find(r, at)
	if w == nil || w.done || w.status != verbs.StatusSuccess {
		r.q.cfg.Count.StaleAnswer++
		return nil, 0
	}
	h := p.AETH()
	if h != nil && h.Syndrome().Type() != rocev2.AckPositive ||
		w.isAtomic() != (p.Opcode() == rocev2.RCAtomicAck) {
		if !r.storesResponse(w, uint32(uint64(at)-w.first)) {
			r.q.cfg.Count.StaleAnswer++
			return nil, 0
		}
		r.badResponse(now, w)
		return nil, 0
	}
	if h != nil && uint64(at) >= r.sndUna {
		r.credit.onAETH(h)
	}
	return w, uint64(at)
}

// badResponse ends w: the response has another kind or length than the request (IBTA
// 9.7.6, 9.9.2).
func (r *requester) badResponse(now Time, w *wqe) {
	r.q.cfg.Count.Malformed++
	r.fault(now, w, verbs.StatusBadResponse)
}

// receiveRead processes a READ response. FIRST, MIDDLE and LAST are accepted in any place:
// they differ when a part is sent again (rxe begins a part with MIDDLE).
func (r *requester) receiveRead(now Time, p *rocev2.Packet) {
	w, n := r.matchResponse(now, p)
	if w == nil {
		return
	}
	c, shift := r.q.cfg.Count, 7+r.q.attr.PMTU
	at := uint32(n - w.first)
	if w.hasPacket(at) {
		c.StaleAnswer++
		return
	}
	if !r.storesResponse(w, at) {
		r.skipResponse(now, w, at)
		return
	}
	data, off := p.Payload(), at<<shift
	if len(data) != int(min(w.length-off, 1<<shift)) || p.BTH().PadCount() != -len(data)&3 {
		r.badResponse(now, w)
		return
	}
	if f := r.scatter(w, off, data); f != mem.FaultNone {
		r.onAcked(now, w.first)
		r.fault(now, w, faultStatus(f))
		return
	}
	c.RecvPackets++
	c.RecvBytes += uint64(len(data))
	r.sampleRepair(now, w, at)
	ends := p.Opcode() == rocev2.RCReadResponseLast || p.Opcode() == rocev2.RCReadResponseOnly
	r.rto.onReadData(now, w.highest != 0 && !ends)
	w.markReceived(at)
	if w.onePacket && ends && at+1 == w.requestedTo { // the response to the probe, and none came before
		w.highest = w.packets
	}
	w.done = w.received == w.packets
	r.onResponse(now, w)
	if !w.done && r.q.state != verbs.StateErr {
		r.updateRequest(now, w)
	}
}

// receiveAtomic processes the result of an ATOMIC: the previous value, which is stored in
// the requester's memory in host order.
func (r *requester) receiveAtomic(now Time, p *rocev2.Packet) {
	w, _ := r.matchResponse(now, p)
	if w == nil {
		return
	}
	if p.PayloadLen() != 0 || p.BTH().PadCount() != 0 {
		r.badResponse(now, w)
		return
	}
	binary.NativeEndian.PutUint64(r.word[:], p.AtomicAckETH().Original())
	if f := r.scatter(w, 0, r.word[:]); f != mem.FaultNone {
		r.onAcked(now, w.first)
		r.fault(now, w, faultStatus(f))
		return
	}
	w.done = true
	r.onResponse(now, w)
}

// onResponse updates the state after a response to w: all before w was executed.
func (r *requester) onResponse(now Time, w *wqe) {
	if w.done {
		r.reads.clear(w)
		r.reads.removeDone(r)
	}
	r.impliedNAK(now, w.first)
	if w.end() > r.sndUna {
		r.advanceUna(now, w.end())
	} else {
		r.tlpOutstanding = false
		r.onProgress(now)
	}
	r.retire(now)
}

// impliedNAK requests READs and ATOMICs before packet to again if they have no response:
// responses come in order, so theirs were lost (IBTA 9.7.6).
func (r *requester) impliedNAK(now Time, to uint64) {
	i := r.reads.first
	for range r.reads.n {
		w := r.at(i)
		if w.end() > to {
			return
		}
		i = w.nextRead
		if w.done || w.again || w.requestedAt != 0 && now-w.requestedAt < r.repairTimeout() {
			continue
		}
		r.q.cfg.Count.ImpliedNak++
		r.requestRest(w)
	}
}

// requestRest marks all missing data of w to be requested again.
func (r *requester) requestRest(w *wqe) {
	w.highest, w.requestedTo = w.packets, 0
	r.reads.request(w)
}

// hasPacket reports whether packet at of the response was received.
func (w *wqe) hasPacket(at uint32) bool {
	return at < w.received || w.hasGaps && w.x.arrived[at/64]>>(at%64)&1 != 0
}

// markReceived notes packet at of the response, which was missing.
func (w *wqe) markReceived(at uint32) {
	w.highest = max(w.highest, at+1)
	if at == w.received {
		w.received++
		for w.hasGaps && w.received < w.highest && w.hasPacket(w.received) {
			w.received++
		}
		w.hasGaps = w.hasGaps && w.received < w.highest
		return
	}
	x := w.getExtra()
	if !w.hasGaps {
		w.hasGaps = true
		words := int(w.packets+63) / 64
		if cap(x.arrived) < words {
			x.arrived = make([]uint64, words)
		}
		x.arrived = x.arrived[:words]
		clear(x.arrived)
	}
	x.arrived[at/64] |= 1 << (at % 64)
}

// gap returns the first range [from, to) of missing packets at or after at and before the
// highest packet received; ok is false if there is none.
func (w *wqe) gap(at uint32) (from, to uint32, ok bool) {
	from = max(at, w.received)
	for from < w.highest && w.hasPacket(from) {
		from++
	}
	to = from
	for to < w.highest && !w.hasPacket(to) {
		to++
	}
	return from, to, from < to
}

// dupThresh is the number of later packets received before a packet counts as lost (RFC
// 6675: DupThresh).
const dupThresh = 3

// gapDue reports whether a part of w must be requested again: later packets were received,
// and the part was not requested recently.
//
// A standard responder is asked for one gap at a time, the first: rxe stores the start of
// the last part requested and drops requests for earlier parts.
func (r *requester) gapDue(now Time, w *wqe) bool {
	lost := func(from uint32, ok bool) bool {
		return ok && (w.highest > from+dupThresh || w.highest == w.packets)
	}
	from, _, ok := w.gap(0)
	if !lost(from, ok) {
		return false
	}
	switch {
	case from >= w.requestedTo:
		return true
	case now-w.requestedAt > r.repairTimeout():
		w.requestedTo = 0
		return true
	case !r.q.attr.Selective:
		return false
	}
	from, _, ok = w.gap(w.requestedTo)
	return lost(from, ok)
}

// updateRequest marks w to be requested again if gapDue, and removes the mark otherwise: packets
// that were late, not lost, fill a gap before the request for it is sent. A request without a
// gap would have length 0.
func (r *requester) updateRequest(now Time, w *wqe) {
	if r.gapDue(now, w) {
		r.reads.request(w)
	} else {
		r.reads.clear(w)
	}
}

// requestAgain writes a request for missing data of w, up to most packets of it.
func (r *requester) requestAgain(now Time, out *Outbound, w *wqe, most uint32) {
	op := opcodes[w.op][3]
	from, to := uint32(0), uint32(1)
	if w.op == verbs.OpRead {
		var ok bool
		if from, to, ok = w.gap(w.requestedTo); !ok {
			from, to, _ = w.gap(0)
		}
		to = min(to, from+most)
	}
	r.header(out, w, op, r.psn(w.first+uint64(from)))
	r.extendInflight(min(w.first+uint64(from)+1, r.sndUna))
	if w.op == verbs.OpRead {
		shift := 7 + r.q.attr.PMTU
		out.VA += uint64(from) << shift
		out.DMALen = min(w.length-from<<shift, (to-from)<<shift)
	}
	out.PayloadLen, out.Again, out.AckReq, out.Solicited = 0, true, true, false
	out.Lost = !r.silentAfterTimeout
	if out.Lost && w.op != verbs.OpRead {
		out.Missed = 1
	}
	// A part that was requested before gives no RTT (Karn's algorithm).
	w.timed = w.op == verbs.OpRead && (w.requestedTo != 0 || w.requestedAt == 0)
	w.requestedTo, w.requestedAt, w.onePacket = to, now, false
	r.updateRequest(now, w)
	r.rto.timing = false
	r.rto.armAckTimer(now, w.end()-1, true, false, true)
	r.count(out)
}
