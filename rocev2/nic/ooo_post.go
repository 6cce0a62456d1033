// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"math/bits"

	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// oooSendQueue is the send queue of a queue pair in out-of-order mode. Work requests wait until the peer
// is known to understand them and package ooo has room for another message. Then they are outstanding
// there, and complete in any order.
type oooSendQueue struct {
	slots   []oooWR
	free    []uint32 // indices of slots
	waiting waitingList
	queued  int // work requests that have not completed
}

// oooWR is a work request. Its index is the ID of its request.
type oooWR struct {
	id       uint64
	op       verbs.Op
	signaled bool
	request  ooo.Request
}

// oooMessages is how many messages package ooo has outstanding: as many as the send queue holds, a
// power of two up to its limit.
func oooMessages(maxSend int) int { return min(1<<bits.Len(uint(maxSend-1)), ooo.MaxMessages) }

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

// post implements QP.postSend.
func (o *oooQP) post(wr *verbs.SendWR) error {
	state := o.x.q.State()
	if _, err := verbs.CheckSend(wr, verbs.SendRules{OutOfOrder: true, State: state}); err != nil {
		return err
	}
	if o.queued >= o.x.q.Config().MaxSend {
		return verbs.ErrQueueFull
	}
	i := o.slot()
	w := &o.slots[i]
	*w = oooWR{id: wr.ID, op: wr.Op, signaled: wr.Flags&verbs.Signaled != 0 || o.x.q.Config().SignalAll}
	w.request = ooo.Request{
		ID: uint64(i), Op: wr.Op, RemoteAddr: wr.RemoteAddr, RKey: wr.RKey,
		Solicited: wr.Flags&verbs.Solicited != 0, Descriptor: uint64(wr.Imm),
	}
	if wr.Op == verbs.OpWriteNotify {
		w.request.Op, w.request.Notify = verbs.OpWrite, true
	}
	if len(wr.SGL) == 1 {
		w.request.Local = wr.SGL[0]
	}
	o.queued++
	if state == verbs.StateErr { // IBTA 10.3.1
		o.finish(i, verbs.StatusWRFlushed, 0)
		return nil
	}
	o.waiting.push(i)
	if o.askAt == 0 {
		o.ask(o.x.dev.eng.now)
	}
	return nil
}

func (o *oooSendQueue) slot() (i uint32) {
	if n := len(o.free); n > 0 {
		i, o.free = o.free[n-1], o.free[:n-1]
		return i
	}
	o.slots = append(o.slots, oooWR{})
	return uint32(len(o.slots) - 1)
}

// forget drops all work requests.
func (o *oooSendQueue) forget() { *o = oooSendQueue{} }

// begin hands work requests to package ooo, as many as it takes.
func (o *oooQP) begin() {
	for o.waiting.len() > 0 {
		i := o.waiting.first()
		err := o.q.Post(&o.slots[i].request)
		if errors.Is(err, ooo.ErrFull) || errors.Is(err, ooo.ErrEnded) {
			return
		}
		o.waiting.pop()
		switch {
		case errors.Is(err, ooo.ErrLocal):
			o.finish(i, verbs.StatusLocalProtection, 0)
		case err != nil:
			o.finish(i, verbs.StatusLocalQPOperation, 0)
		}
	}
}

// complete takes the completion of a message from package ooo.
func (o *oooQP) complete(c verbs.Completion) {
	if q := &o.x.q; o.q.Ended() && q.State() != verbs.StateErr {
		q.Config().Count.RetryExceeded++
		_ = q.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState) // the completion shows it
	}
	o.finish(uint32(c.WRID), c.Status, c.Bytes)
}

// finish completes a work request.
func (o *oooQP) finish(i uint32, status verbs.Status, bytes uint32) {
	w := o.slots[i]
	o.free = append(o.free, i)
	o.queued--
	switch {
	case status == verbs.StatusWRFlushed:
		o.x.q.Config().Count.Flushed++
	case status == verbs.StatusSuccess && !w.signaled:
		return
	}
	o.x.send.Complete(verbs.Completion{WRID: w.id, QPN: o.x.num, Status: status, Op: w.op, Bytes: bytes, Solicited: status != verbs.StatusSuccess})
}

// settle completes what waits, if package ooo has ended the queue pair.
func (o *oooQP) settle() {
	if o.q.Ended() && o.waiting.len() > 0 {
		o.flushWaiting(verbs.StatusWRFlushed)
	}
}

// flushWaiting completes the work requests that were not begun.
func (o *oooQP) flushWaiting(first verbs.Status) {
	list := o.waiting
	o.waiting = waitingList{}
	for ; list.len() > 0; list.pop() {
		o.finish(list.first(), first, 0)
		first = verbs.StatusWRFlushed
	}
}
