// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"sort"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// wqe is a work request in the send queue and its progress.
type wqe struct {
	id          uint64
	va          uint64
	swapAdd     uint64
	compare     uint64
	first       uint64 // position of its first packet
	requestedAt Time   // READ, ATOMIC: when it was last requested again
	length      uint32 // bytes of the message
	packets     uint32 // PSNs; 0 for a local operation
	rkey        uint32
	imm         uint32 // immediate data, or the key to invalidate
	ssn         uint32
	op          verbs.Op
	flags       verbs.Flags
	status      verbs.Status // other than Success: the error to complete with
	done        bool         // READ, ATOMIC, local: it has its result
	sglInExtra  bool         // the list is in x
	again       bool         // READ, ATOMIC: to be requested again
	hasGaps     bool         // READ: x.arrived is in use
	onePacket   bool         // READ: the last request was a probe for one packet
	timed       bool         // READ: the response to the last request gives an RTT of a repair
	internal    bool         // WQE made by PostInternal: the completion goes to x.sink

	// READ: the progress, in packets of the response.
	received    uint32 // all packets before it were received
	highest     uint32 // one more than the highest packet received
	requestedTo uint32 // the end of the last range requested again

	nextRead uint32    // index of the next one in readList
	sge      verbs.SGE // the list, if it has one element
	x        *extra    // kept with the slot
}

// extra holds what few work requests need.
type extra struct {
	sgl     []verbs.SGE
	data    []byte   // inline
	arrived []uint64 // READ with a gap: one bit for each packet of the response
	bind    verbs.Bind
	ah      verbs.AH
	qpn     uint32 // UD: of the destination
	qkey    uint32
	sink    CompletionQueue // queue given to PostInternal
}

func (w *wqe) end() uint64 { return w.first + uint64(w.packets) }

// isRead reports whether the peer responds with data.
func (w *wqe) isRead() bool { return w.op == verbs.OpRead || w.isAtomic() }

func (w *wqe) isAtomic() bool { return w.op == verbs.OpCompareSwap || w.op == verbs.OpFetchAdd }

func (w *wqe) getExtra() *extra {
	if w.x == nil {
		w.x = new(extra)
	}
	return w.x
}

// ringMin is the number of slots of the smallest allocated ring. One outstanding message
// needs no ring: its slot is in the queue pair itself (firstSlot), next to the fields that
// every message touches. A longer ring is freed after idleTime without work.
const (
	ringMin  = 8
	idleTime = Time(1e9)
)

func (r *requester) at(i uint32) *wqe { return &r.ring[i&uint32(len(r.ring)-1)] }

func (r *requester) grow() {
	if r.ring == nil {
		r.ring = r.firstSlot[:]
		return
	}
	ring := make([]wqe, max(ringMin, 2*len(r.ring)))
	for i := r.head; i != r.tail; i++ {
		ring[i&uint32(len(ring)-1)] = *r.at(i)
	}
	r.ring = ring
}

// postInternal implements PostInternal.
func (r *requester) postInternal(wr *verbs.SendWR, sink CompletionQueue) error {
	rules := r.rules()
	rules.MaxInline, rules.MaxSGE = max(rules.MaxInline, InternalInline), max(rules.MaxSGE, 1)
	return r.put(&rules, wr, sink)
}

// post implements PostSend.
func (r *requester) post(wr *verbs.SendWR) error {
	rules := r.rules()
	return r.put(&rules, wr, nil)
}

// put puts a work request on the queue. sink is nil for one of the application.
func (r *requester) put(rules *verbs.SendRules, wr *verbs.SendWR, sink CompletionQueue) error {
	q := r.q
	length, err := verbs.CheckSend(wr, rules)
	if err != nil {
		return err
	}
	if q.state == verbs.StateErr || q.state == verbs.StateSQE { // IBTA 10.3.1
		r.complete(&wqe{id: wr.ID, op: wr.Op, status: verbs.StatusWRFlushed, internal: sink != nil, x: &extra{sink: sink}})
		return nil
	}
	if sink == nil && q.SendUsed() >= q.cfg.MaxSend || sink != nil && r.internals >= MaxInternal {
		return verbs.ErrQueueFull
	}
	first := r.sndMax
	if r.tail != r.head {
		first = r.at(r.tail - 1).end()
	} else {
		// The first slots are probably in the CPU caches: queue pairs with one outstanding message
		// at a time use the same slot always.
		r.head, r.cur, r.tail = 0, 0, 0
	}
	if int(r.tail-r.head) == len(r.ring) {
		r.grow()
	}
	w := r.at(r.tail)
	x := w.x
	*w = wqe{
		id: wr.ID, op: wr.Op, flags: wr.Flags, length: length, first: first, x: x,
		va: wr.RemoteAddr, rkey: wr.RKey, imm: wr.Imm, compare: wr.Compare, swapAdd: wr.Swap,
	}
	switch wr.Op {
	case verbs.OpSendInv, verbs.OpLocalInv:
		w.imm = wr.InvKey
	case verbs.OpFetchAdd:
		w.swapAdd = wr.Add
	case verbs.OpBindWindow:
		w.getExtra().bind = wr.Bind
	}
	if wr.AH != nil {
		x := w.getExtra()
		x.ah, x.qpn, x.qkey = wr.AH, wr.RemoteQPN, wr.RemoteQKey
	}
	switch {
	case wr.Flags&verbs.Inline != 0:
		x := w.getExtra()
		x.data = append(x.data[:0], wr.Data...)
	case len(wr.SGL) == 1:
		w.sge = wr.SGL[0]
	case len(wr.SGL) > 1:
		x := w.getExtra()
		x.sgl, w.sglInExtra = append(x.sgl[:0], wr.SGL...), true
	}
	if wr.Op != verbs.OpLocalInv && wr.Op != verbs.OpBindWindow {
		w.packets = 1
		if q.cfg.Type != verbs.UD {
			w.packets = q.attr.PMTU.Packets(length)
		}
		w.ssn = r.ssn
		r.ssn = (r.ssn + 1) & ssnMask
	}
	if sink != nil {
		w.internal = true
		w.getExtra().sink = sink
		r.internals++
	}
	r.tail++
	return nil
}

// rules returns what decides which work requests are taken.
func (r *requester) rules() verbs.SendRules {
	c, a := &r.q.cfg, &r.q.attr
	return verbs.SendRules{
		Type: c.Type, State: r.q.state, MaxRdAtomic: a.MaxRdAtomic, PMTU: a.PMTU, MaxSGE: c.MaxSendSGE, MaxInline: c.MaxInline,
	}
}

// SendQueued returns the number of work requests on the send queue that have not
// completed.
func (q *QP) SendQueued() int { return int(q.req.tail - q.req.head) }

// SendUsed returns how many of the Config.MaxSend places are in use: work requests of PostInternal
// take none.
func (q *QP) SendUsed() int { return q.SendQueued() - int(q.req.internals) }

// take takes the oldest work request off the queue. It is valid until the next one is posted.
func (r *requester) take() *wqe {
	w := r.at(r.head)
	r.head++
	if w.internal {
		r.internals--
	}
	return w
}

// locate returns the index of the work request of packet n, or of an earlier local
// operation that has not run. It returns tail if there is none.
func (r *requester) locate(n uint64) uint32 {
	return r.head + uint32(sort.Search(int(r.tail-r.head), func(i int) bool {
		w := r.at(r.head + uint32(i))
		return w.end() > n || w.packets == 0 && !w.done
	}))
}

// shrink frees the ring of an empty queue.
func (r *requester) shrink() {
	if r.head == r.tail && len(r.ring) > ringMin {
		r.ring, r.scoreboard = nil, nil
	}
}
