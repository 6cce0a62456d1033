// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"bytes"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// sendQueue and recvQueue are the completion queues of an endpoint. They look at a
// completion at once, while the memory is as the queue pair left it; nothing is
// posted from here.
type (
	sendQueue struct{ e *Endpoint }
	recvQueue struct{ e *Endpoint }
)

// Complete is that of qp.CompletionQueue.
func (s sendQueue) Complete(c verbs.Completion) {
	s.e.Node.completed(&c)
	s.e.sendDone(&c)
}

// Complete is that of qp.CompletionQueue.
func (r recvQueue) Complete(c verbs.Completion) {
	r.e.Node.completed(&c)
	r.e.recvDone(&c)
}

// sendDone takes a completion of the send queue.
func (e *Endpoint) sendDone(c *verbs.Completion) {
	e.Completed++
	e.Last = e.Node.w.now
	i := 0
	for i < len(e.out) && e.out[i].id != c.WRID {
		i++
	}
	if i == len(e.out) {
		e.fail("completion %+v of no outstanding work request (%d are)", *c, len(e.out))
		return
	}
	for _, p := range e.out[:i] {
		if p.op.Flags&verbs.Signaled != 0 || e.Failed != verbs.StatusSuccess || e.doubt {
			e.fail("completion of op %d (%v, %v) before that of op %d (%v)", c.WRID>>8, opName(c.Op), c.Status, p.id>>8, p.op)
			return
		}
		e.finish(p)
	}
	p := e.out[i]
	e.out = append(e.out[:0], e.out[i+1:]...)
	if c.QPN != e.QP.QPN() {
		e.fail("completion of QP %d at QP %d", c.QPN, e.QP.QPN())
	}
	if c.Status != verbs.StatusSuccess {
		// The NAK may be there while the answer to an earlier READ or ATOMIC is lost for
		// good. That one and what waits behind it are flushed, then comes the reason.
		e.doubt = e.doubt || e.MayFail && (p.op.Kind == verbs.OpRead || isAtomic(p.op.Kind))
		if c.Status == verbs.StatusWRFlushed && e.Failed == verbs.StatusSuccess && e.doubt {
			return
		}
		e.failed(c.Status, int(p.id>>8), p.op.String())
		return
	}
	if e.Failed != verbs.StatusSuccess {
		e.fail("op %v succeeds after %v", p.op, e.Failed)
		return
	}
	if p.op.Flags&verbs.Signaled == 0 {
		e.fail("completion of unsignaled op %v", p.op)
		return
	}
	want := verbs.Completion{WRID: p.id, QPN: c.QPN, Op: p.op.Kind}
	if p.op.Kind == verbs.OpRead || isAtomic(p.op.Kind) {
		want.Bytes = uint32(p.op.Len)
	}
	if *c != want {
		e.fail("completion of %v:\n got %+v\nwant %+v", p.op, *c, want)
		return
	}
	e.finish(p)
}

// finish checks what p brought and frees its place.
func (e *Endpoint) finish(p *posted) {
	e.Done++
	data := p.data
	for _, s := range p.land {
		got := e.landing.Data[s.off : s.off+s.n]
		if !bytes.Equal(got, data[:s.n]) {
			e.fail("op %d (%v) brought wrong data: %s", p.id>>8, p.op, difference(got, data[:s.n]))
			return
		}
		copy(e.landed[s.off:], got)
		data = data[s.n:]
	}
	if !p.pin {
		e.tail = p.end
	}
	if p == e.local { // no other was posted since
		w := e.Node.Mem.Region(e.window)
		if w == nil || w.QPN != e.QP.QPN() || w.Invalid == e.bound {
			e.fail("%v completed, but has not happened", p.op)
		}
	}
}

// failed takes a completion that is no success.
func (e *Endpoint) failed(s verbs.Status, op int, what string) {
	switch {
	case e.Failed == verbs.StatusSuccess:
		e.Failed, e.FailedOp, e.FailedAt = s, op, e.Node.w.now
		if !e.MayFail {
			e.fail("op %d (%s): %v", op, what, s)
		}
	case s != verbs.StatusWRFlushed:
		e.fail("op %d (%s): %v, after op %d had failed with %v", op, what, s, e.FailedOp, e.Failed)
	}
}

// recvDone takes a completion of the receive queue.
func (e *Endpoint) recvDone(c *verbs.Completion) {
	slot := e.Recv.take(c.WRID)
	if slot < 0 {
		return
	}
	if c.QPN != e.QP.QPN() {
		e.fail("completion of QP %d at QP %d", c.QPN, e.QP.QPN())
	}
	if c.Status != verbs.StatusSuccess {
		e.Recv.read(slot, e.Recv.size) // whatever is there
		e.failed(c.Status, -1, "receive")
		return
	}
	e.Messages++
	e.Recv.later(slot)
	if e.anything {
		return
	}
	if e.QP.Type() == verbs.UD {
		e.datagram(c, slot)
		return
	}
	if e.disorder {
		e.anyOf(c, slot)
		return
	}
	for i := range e.expect {
		why := e.compare(c, slot, &e.expect[i])
		if why == "" {
			e.Skipped += i
			e.expect = e.expect[i+1:]
			return
		}
		if e.QP.Type() == verbs.RC {
			e.fail("receive %+v: %s", *c, why)
			return
		}
	}
	e.fail("receive %+v of what was not sent, or out of order", *c)
}

// anyOf takes a message of UC that may have been overtaken or duplicated in flight: the
// responder takes any message that begins, whatever its PSN (IBTA 9.8.2.2).
func (e *Endpoint) anyOf(c *verbs.Completion, slot int) {
	for i := range e.expect {
		if e.compare(c, slot, &e.expect[i]) == "" {
			return
		}
	}
	e.fail("receive %+v of what was not sent", *c)
}

// compare says in what the completion differs from m, or "".
func (e *Endpoint) compare(c *verbs.Completion, slot int, m *message) string {
	want := verbs.Completion{
		WRID: c.WRID, QPN: c.QPN, Op: verbs.OpRecv, Bytes: uint32(len(m.data)), Solicited: m.solicited,
	}
	switch m.kind {
	case verbs.OpWriteImm:
		want.Op = verbs.OpRecvWriteImm
		want.HasImm, want.Imm = true, m.imm
	case verbs.OpSendImm:
		want.HasImm, want.Imm = true, m.imm
	case verbs.OpSendInv:
		want.HasInv, want.InvKey = true, m.invKey
	}
	if *c != want {
		return "want " + format(want)
	}
	var got []byte
	if m.kind == verbs.OpWriteImm {
		got = e.target.Data[m.remote : m.remote+len(m.data)]
	} else {
		got = e.Recv.read(slot, len(m.data))
	}
	if !bytes.Equal(got, m.data) {
		return "wrong data: " + difference(got, m.data)
	}
	if want.HasInv && !e.Node.Mem.Region(m.invKey).Invalid {
		return "the key is still valid"
	}
	return ""
}

// targetWritten checks a packet's write to what the peer may touch: there must be
// a request outstanding that asks for exactly this.
func (e *Endpoint) targetWritten(qpn uint32, off int, data []byte) {
	if e.Peer == nil || qpn != e.QP.QPN() {
		e.fail("%d bytes written to target of another queue pair, by QP %d", len(data), qpn)
		return
	}
	requests := e.Peer.out
	if e.QP.Type() == verbs.UC {
		requests = e.Peer.history
	}
	for _, p := range requests {
		switch {
		case p.op.BadKey || p.op.BadRange:
		case isAtomic(p.op.Kind):
			if p.at == off {
				return
			}
		case isWrite(p.op.Kind):
			if (span{p.at, len(p.data)}).holds(off, len(data)) && bytes.Equal(p.data[off-p.at:][:len(data)], data) {
				return
			}
		}
	}
	e.fail("%d bytes written at %d of the target: no request outstanding asks for that", len(data), off)
}

// landingWritten does so for what answers bring.
func (e *Endpoint) landingWritten(qpn uint32, off int, data []byte) {
	if qpn == 0 {
		for _, p := range e.out {
			for _, s := range p.land {
				if s.holds(off, len(data)) {
					return
				}
			}
		}
	}
	e.fail("%d bytes written at %d of the landing place: no request outstanding asks for that", len(data), off)
}

// check compares everything with the model, at the end.
func (e *Endpoint) check() {
	switch {
	case e.next < len(e.Ops):
		e.fail("stuck: %d of %d operations posted, %d outstanding, first of them %v", e.next, len(e.Ops), len(e.out), first(e.out))
	case len(e.out) > 0:
		e.fail("stuck: %d operations have no end, first of them %v", len(e.out), first(e.out))
	case e.QP.Type() == verbs.RC && e.Failed == verbs.StatusSuccess && len(e.expect) > 0:
		e.fail("%d messages were not received", len(e.expect))
	}
	if e.Failed == verbs.StatusSuccess && e.QP.Type() == verbs.RC && !bytes.Equal(e.target.Data, e.want) {
		e.fail("target: %s", difference(e.target.Data, e.want))
	}
	if !bytes.Equal(e.landing.Data, e.landed) && e.Failed == verbs.StatusSuccess {
		e.fail("landing place: %s", difference(e.landing.Data, e.landed))
	}
	// UC: a message that did not become whole leaves its traces in a buffer.
	if !bytes.Equal(e.Recv.region.Data, e.Recv.shadow) && e.Failed == verbs.StatusSuccess && e.QP.Type() != verbs.UC {
		e.fail("receive buffers: %s", difference(e.Recv.region.Data, e.Recv.shadow))
	}
}

func first(out []*posted) string {
	if len(out) == 0 {
		return "none"
	}
	return out[0].op.String()
}
