// SPDX-License-Identifier: Apache-2.0

package ooo

import (
	"errors"
	"math/bits"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// sendQueue is the send queue of a Transport. Work requests wait until the peer is known to understand them
// and QP has room for another message. Then they are outstanding there, and complete in any order.
type sendQueue struct {
	slots   []workRequest
	free    []uint32 // indices of slots
	waiting waitingList
	queued  int // work requests that have not completed
}

// workRequest is a work request. Its index is the ID of its request.
type workRequest struct {
	id       uint64
	op       verbs.Op
	signaled bool
	request  Request
}

// outstandingMessages is how many messages QP has outstanding: as many as the send queue holds, a power of two
// up to its limit.
func outstandingMessages(maxSend int) int { return min(1<<bits.Len(uint(maxSend-1)), MaxMessages) }

// waitingList are indices of slots in order, the first of them at head.
type waitingList struct {
	list []uint32
	head int
}

func (w *waitingList) len() int      { return len(w.list) - w.head }
func (w *waitingList) push(i uint32) { w.list = append(w.list, i) }
func (w *waitingList) first() uint32 { return w.list[w.head] }

// pop removes the first one. The list is moved to its front seldom, as work requests may be many.
func (w *waitingList) pop() {
	if w.head++; w.head > len(w.list)/2 {
		w.list, w.head = w.list[:copy(w.list, w.list[w.head:])], 0
	}
}

// SendQueued returns the number of work requests on the send queue that have not completed.
func (t *Transport) SendQueued() int { return t.queued }

// SendUsed is SendQueued: there are no work requests of the NIC itself.
func (t *Transport) SendUsed() int { return t.queued }

// PostSend puts a work request on the send queue. After an error nothing was queued. In ERR the work request
// completes as flushed.
func (t *Transport) PostSend(wr *verbs.SendWR) error {
	c, state := t.base.Config(), t.base.State()
	if _, err := verbs.CheckSend(wr, &verbs.SendRules{OutOfOrder: true, State: state}); err != nil {
		return err
	}
	if t.queued >= c.MaxSend {
		return verbs.ErrQueueFull
	}
	i := t.slot()
	w := &t.slots[i]
	*w = workRequest{id: wr.ID, op: wr.Op, signaled: wr.Flags&verbs.Signaled != 0 || c.SignalAll}
	w.request = Request{
		ID: uint64(i), Op: wr.Op, RemoteAddr: wr.RemoteAddr, RKey: wr.RKey,
		Solicited: wr.Flags&verbs.Solicited != 0, Descriptor: uint64(wr.Imm),
	}
	if wr.Op == verbs.OpWriteNotify {
		w.request.Op, w.request.Notify = verbs.OpWrite, true
	}
	if len(wr.SGL) == 1 {
		w.request.Local = wr.SGL[0]
	}
	t.queued++
	if state == verbs.StateErr { // IBTA 10.3.1
		t.finish(i, verbs.StatusWRFlushed, 0)
		return nil
	}
	t.waiting.push(i)
	return nil
}

func (s *sendQueue) slot() (i uint32) {
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
		return i
	}
	s.slots = append(s.slots, workRequest{})
	return uint32(len(s.slots) - 1)
}

// forget drops all work requests.
func (s *sendQueue) forget() { *s = sendQueue{} }

// begin hands work requests to QP, as many as it takes.
func (t *Transport) begin() {
	for t.waiting.len() > 0 {
		i := t.waiting.first()
		err := t.q.Post(&t.slots[i].request)
		if errors.Is(err, ErrFull) || errors.Is(err, ErrEnded) {
			return
		}
		t.waiting.pop()
		switch {
		case errors.Is(err, ErrLocal):
			t.finish(i, verbs.StatusLocalProtection, 0)
		case err != nil:
			t.finish(i, verbs.StatusLocalQPOperation, 0)
		}
	}
}

// complete takes the completion of a message from QP.
func (t *Transport) complete(c verbs.Completion) {
	if t.q.Ended() && t.base.State() != verbs.StateErr {
		t.base.Config().Count.RetryExceeded++
		_ = t.base.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState) // the completion shows it
	}
	t.finish(uint32(c.WRID), c.Status, c.Bytes)
}

// finish completes a work request.
func (t *Transport) finish(i uint32, status verbs.Status, bytes uint32) {
	w, c := t.slots[i], t.base.Config()
	t.free = append(t.free, i)
	t.queued--
	switch {
	case status == verbs.StatusWRFlushed:
		c.Count.Flushed++
	case status == verbs.StatusSuccess && !w.signaled:
		return
	}
	c.SendCQ.Complete(verbs.Completion{WRID: w.id, QPN: c.QPN, Status: status, Op: w.op, Bytes: bytes, Solicited: status != verbs.StatusSuccess})
}

// flushEnded completes what waits, if QP has ended.
func (t *Transport) flushEnded() {
	if t.q.Ended() && t.waiting.len() > 0 {
		t.flushWaiting(verbs.StatusWRFlushed)
	}
}

// flushWaiting completes the work requests that were not begun.
func (t *Transport) flushWaiting(first verbs.Status) {
	list := t.waiting
	t.waiting = waitingList{}
	for ; list.len() > 0; list.pop() {
		t.finish(list.first(), first, 0)
		first = verbs.StatusWRFlushed
	}
}
