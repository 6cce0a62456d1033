// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"math"
	"slices"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// resource is the stored state of a READ or ATOMIC, for the response and its repetition
// (IBTA 9.7.5.1).
type resource struct {
	va         uint64 // READ: address; ATOMIC: previous value
	psn        rocev2.PSN
	rkey       uint32
	length     uint32
	n          uint32 // packets of the response
	nextUnsent uint32 // the first packet that was not sent
	msn        uint32 // MSN including this operation
	atomic     bool
}

// replay is a READ, a part of one, or an ATOMIC whose response is sent again.
type replay struct {
	res        uint8  // index
	started    bool   // the next packet is not the first
	at         uint32 // the next packet, counted from the start of the READ
	left       uint32 // bytes
	unsentFrom uint32 // packets from here on were never sent
	missed     uint16 // packets that the request shows to be lost
}

// maxReplays bounds the replays that wait to be sent. Further ones are dropped, and the
// requester asks again.
const maxReplays = 64

// resources are the last MaxDestRdAtomic READs and ATOMICs. Responses leave in PSN order: a
// requester takes a response beyond the expected one as a sign of loss (IBTA 9.7.5.1).
type resources struct {
	pending uint32 // resources before head without a complete response
	head    uint32 // index of the next new resource
	replays []replay
	ring    []resource
}

func (s *resources) responding() bool { return s.pending|uint32(len(s.replays)) != 0 }

// oldest returns the index of the oldest resource without a complete response.
func (s *resources) oldest() uint32 {
	n := uint32(len(s.ring))
	return (s.head + n - s.pending) % n
}

// nextResponse returns the resource of the next response, and which of its packets that
// is. It may be called only while responding.
func (s *resources) nextResponse() (i, at uint32) {
	if s.replayFirst() {
		return uint32(s.replays[0].res), s.replays[0].at
	}
	i = s.oldest()
	return i, s.ring[i].nextUnsent
}

// replayFirst reports whether a replay is sent before new responses.
func (s *resources) replayFirst() bool {
	if len(s.replays) == 0 || s.pending == 0 {
		return s.pending == 0
	}
	r, o := &s.replays[0], &s.ring[s.oldest()]
	return s.ring[r.res].psn.Add(int(r.at)).Before(o.psn.Add(int(o.nextUnsent)))
}

// removeAnswered removes resources with a complete response from the pending ones.
func (s *resources) removeAnswered() {
	for s.pending != 0 {
		if o := &s.ring[s.oldest()]; o.nextUnsent < o.n {
			return
		}
		s.pending--
	}
}

// add makes room for a new resource. It returns nil if the peer has more outstanding than
// MaxDestRdAtomic.
func (s *resources) add(limit uint8) *resource {
	if len(s.ring) != int(limit) {
		s.resize(int(limit))
	}
	if s.pending == uint32(len(s.ring)) {
		return nil
	}
	i := s.head
	// The requester of a replay of the old resource has its response: it has sent a new
	// request.
	s.dropReplays(i)
	s.head = (s.head + 1) % uint32(len(s.ring))
	s.pending++
	return &s.ring[i]
}

// resize allocates the ring at the first use and after a change of MaxDestRdAtomic. It
// keeps the pending resources.
func (s *resources) resize(n int) {
	n = max(n, int(s.pending))
	ring := make([]resource, n)
	for i := range s.pending {
		ring[i] = s.ring[(s.oldest()+i)%uint32(len(s.ring))]
	}
	s.ring, s.replays = ring, nil
	if s.head = s.pending; s.head == uint32(n) {
		s.head = 0
	}
}

// answered reports whether each packet of the response to resource i was sent.
func (s *resources) answered(i uint32) bool {
	o := &s.ring[i]
	return o.nextUnsent >= o.n && !slices.ContainsFunc(s.replays, func(r replay) bool { return uint32(r.res) == i && r.unsentFrom < o.n })
}

// dropReplays cancels the replays of resource i.
func (s *resources) dropReplays(i uint32) {
	s.replays = slices.DeleteFunc(s.replays, func(r replay) bool { return uint32(r.res) == i })
}

// clear cancels all responses.
func (s *resources) clear() { s.pending, s.replays = 0, nil }

// find returns the resource whose responses include psn.
func (s *resources) find(psn rocev2.PSN, atomic bool) (i int, ok bool) {
	for i := range s.ring {
		o := &s.ring[i]
		if d := psn.Diff(o.psn); o.n != 0 && o.atomic == atomic && d >= 0 && d < int(o.n) {
			return i, true
		}
	}
	return 0, false
}

// read accepts a READ (IBTA 9.7.4.1). Right, range and key are checked now, and again when
// the data is read.
func (r *responder) read(p *rocev2.Packet) (verdict, int) {
	q, reth := r.q, p.RETH()
	n := reth.DMALen()
	if q.attr.Access&verbs.AccessRemoteRead == 0 || q.attr.MaxDestRdAtomic == 0 || n > verbs.MaxMessage || !empty(p) {
		return badRequest, 0
	}
	if n != 0 {
		if f := q.cfg.Memory.CheckRemote(q.cfg.PD, q.cfg.QPN, reth.RKey(), reth.VA(), n, verbs.AccessRemoteRead); f != mem.FaultNone {
			return verdictOf(f), 0
		}
	}
	res := r.res.add(q.attr.MaxDestRdAtomic)
	if res == nil {
		return badRequest, 0
	}
	r.endMessage() // MSN counts a READ when it is accepted (C9-148; rxe)
	packets := q.attr.PMTU.Packets(n)
	*res = resource{va: reth.VA(), psn: r.expected, rkey: reth.RKey(), length: n, n: packets, msn: r.msn}
	return accepted, int(packets)
}

// atomic executes COMPARE_SWAP or FETCH_ADD.
func (r *responder) atomic(p *rocev2.Packet) verdict {
	q, h := r.q, p.AtomicETH()
	if q.attr.Access&verbs.AccessRemoteAtomic == 0 || q.attr.MaxDestRdAtomic == 0 || h.VA()%8 != 0 || !empty(p) {
		return badRequest
	}
	if r.res.pending >= uint32(q.attr.MaxDestRdAtomic) {
		return badRequest // checked before memory changes
	}
	var was uint64
	var f mem.Fault
	if p.Opcode() == rocev2.RCCompareSwap {
		was, f = q.cfg.Memory.CompareSwap(q.cfg.PD, q.cfg.QPN, h.RKey(), h.VA(), h.Compare(), h.SwapOrAdd())
	} else {
		was, f = q.cfg.Memory.FetchAdd(q.cfg.PD, q.cfg.QPN, h.RKey(), h.VA(), h.SwapOrAdd())
	}
	if f != mem.FaultNone {
		return verdictOf(f)
	}
	r.endMessage()
	*r.res.add(q.attr.MaxDestRdAtomic) = resource{va: was, psn: r.expected, n: 1, msn: r.msn, atomic: true}
	return accepted
}

// empty reports that neither payload nor pad follows the headers.
func empty(p *rocev2.Packet) bool { return p.PayloadLen() == 0 && p.BTH().PadCount() == 0 }

// replayRead handles a duplicate READ. It must request all or a part of the original under
// the same key and at the PSN of that part; otherwise it is dropped (IBTA 9.7.5.1, class D;
// rxe checks range and key).
func (r *responder) replayRead(p *rocev2.Packet, psn rocev2.PSN) {
	s, reth := &r.res, p.RETH()
	i, ok := s.find(psn, false)
	if !ok {
		r.q.cfg.Count.Ignored++
		return
	}
	o := &s.ring[i]
	at := uint32(psn.Diff(o.psn))
	skip := uint64(at) * uint64(r.pmtu)
	n := reth.DMALen()
	if reth.RKey() != o.rkey || reth.VA() != o.va+skip || skip+uint64(n) > uint64(o.length) ||
		n == 0 && o.length != 0 || !empty(p) {
		r.q.cfg.Count.Malformed++
		return
	}
	end := at + r.q.attr.PMTU.Packets(n)
	if at >= o.nextUnsent {
		// Not sent yet, so it will be sent anyway. A response to a probe for it would look as
		// if all packets before it were lost.
		return
	}
	// A request for a part of the responses sent means that this part is missing. A request
	// for all from there on comes from a requester that goes back and drops what it has.
	missed := uint32(1)
	if end < o.nextUnsent {
		missed = min(end-at, math.MaxUint16)
	}
	if r.q.attr.Selective && at == 0 && n > uint32(r.pmtu) && n == o.length {
		// Between softroce engines: the requester has no response yet, mostly because this
		// engine is slow. The first packet shows progress; then missing parts are requested.
		n, end, missed = uint32(r.pmtu), 1, 0
	}
	fresh := o.nextUnsent
	// The packets of the replay need not be sent a first time.
	if whole := n%uint32(r.pmtu) == 0 || end == o.n; whole && end > o.nextUnsent {
		o.nextUnsent = end
		s.removeAnswered()
	}
	s.insert(replay{res: uint8(i), at: at, left: n, unsentFrom: fresh, missed: uint16(missed)}, r.pmtu)
}

// replayAtomic answers a duplicate ATOMIC with the value of the first execution.
func (r *responder) replayAtomic(psn rocev2.PSN) {
	s := &r.res
	i, ok := s.find(psn, true)
	switch {
	case !ok:
		r.q.cfg.Count.Ignored++
	case s.ring[i].nextUnsent != 0:
		s.insert(replay{res: uint8(i)}, r.pmtu)
	}
}

// insert inserts a replay in PSN order. It replaces replays that it covers.
func (s *resources) insert(n replay, pmtu int) {
	end := func(r replay) uint64 { return uint64(r.at)*uint64(pmtu) + uint64(r.left) }
	s.replays = slices.DeleteFunc(s.replays, func(r replay) bool {
		covered := r.res == n.res && r.at >= n.at && end(r) <= end(n)
		if covered {
			n.unsentFrom = min(n.unsentFrom, max(r.unsentFrom, r.at))
		}
		return covered
	})
	if len(s.replays) == maxReplays {
		return
	}
	psn := s.ring[n.res].psn.Add(int(n.at))
	i := 0
	for i < len(s.replays) && !psn.Before(s.ring[s.replays[i].res].psn.Add(int(s.replays[i].at))) {
		i++
	}
	s.replays = slices.Insert(s.replays, i, n)
}

// sentAtomic notes that the result of resource i, the next response, is sent.
func (s *resources) sentAtomic(i uint32) {
	if s.replayFirst() {
		s.replays = slices.Delete(s.replays, 0, 1)
		return
	}
	s.ring[i].nextUnsent = 1
	s.removeAnswered()
}

// readResponseDue reports that nextRead has a response. Results of ATOMICs are sent by
// nextAck.
func (r *responder) readResponseDue() bool {
	s := &r.res
	if !s.responding() {
		return false
	}
	i, _ := s.nextResponse()
	return !s.ring[i].atomic
}

// nextRead writes the next READ response.
func (r *responder) nextRead(now Time, out *Outbound) bool {
	s := &r.res
	if !s.responding() {
		return false
	}
	i, at := s.nextResponse()
	res := &s.ring[i]
	if res.atomic {
		return false // sent by nextAck
	}
	skip := at * uint32(r.pmtu)
	n := min(res.length-skip, uint32(r.pmtu))
	replayed, again, missed := s.replayFirst(), false, uint16(0)
	starts, ends := at == 0, at+1 == res.n
	if replayed {
		p := &s.replays[0]
		again = at < p.unsentFrom
		n = min(p.left, n)
		p.left -= n
		starts, ends = !p.started, p.left == 0
		p.started = true
		if starts && again {
			missed = p.missed
		}
		if p.at++; ends {
			s.replays = slices.Delete(s.replays, 0, 1)
		}
	} else {
		res.nextUnsent++
		s.removeAnswered()
	}
	psn := res.psn.Add(int(at))
	r.writeResponse(out, readOpcode(starts, ends), psn, noCredits, res.msn)
	out.PayloadLen, out.Again, out.Lost, out.Missed = int(n), again, again, missed
	out.fill, out.wqe, out.off = r, i, skip
	r.ack.markAcked(psn, r.expected.Add(-1))
	c := r.q.cfg.Count
	c.SentPackets++
	c.SentBytes += uint64(n)
	if again {
		c.SentAgain++
	}
	return true
}

func readOpcode(starts, ends bool) rocev2.Opcode {
	switch {
	case starts && ends:
		return rocev2.RCReadResponseOnly
	case starts:
		return rocev2.RCReadResponseFirst
	case ends:
		return rocev2.RCReadResponseLast
	}
	return rocev2.RCReadResponseMiddle
}

// fillPayload reads the data of a READ response. If the memory is not accessible any more,
// a NAK replaces this response and the connection ends (IBTA 9.7.4.1, 9.9.3). If all of the response
// was sent before, it is dropped instead: mostly the requester has it, and has told the application
// that the memory is not needed any more. Otherwise it asks until its retries end.
func (r *responder) fillPayload(o *Outbound, dst []byte) bool {
	q, res := r.q, &r.res.ring[o.wqe]
	f := o.readRemote(q.cfg.Memory, q.cfg.PD, q.cfg.QPN, res.rkey, res.va+uint64(o.off), dst)
	if f == mem.FaultNone {
		return true
	}
	if o.Again && r.res.answered(o.wqe) {
		r.res.dropReplays(o.wqe)
		q.cfg.Count.Ignored++
		return false
	}
	r.res.clear()
	end := &fatalNAKs[verdictOf(f)]
	r.setFatalNAK(end.code, o.PSN, (res.msn-1)&rocev2.PSNMask)
	q.fail(0, end.event)
	return false
}

// dropPayload does nothing: the requester will request the response again.
func (r *responder) dropPayload(*Outbound) {}
