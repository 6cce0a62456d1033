// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Feeder brings work requests of other processes to the engine (package loader/device). The owner
// of the loop calls it, so that between the memory of a process and the queue pair there is no other
// thread and no other queue.
type Feeder interface {
	// Take passes waiting work requests to FeedSend and FeedRecv, within a budget, and returns how
	// many it took. It is called in every iteration.
	Take() int
	// Due is how long it takes until Take is to be called at the latest, also if nothing waits. some: there is
	// such a time.
	Due() (d time.Duration, some bool)
	// Waiting reports that Take would find something. It is called often.
	Waiting() bool
	// Sleep is called when the owner of the loop is about to sleep. false: something waits. After
	// true, a producer makes FD readable.
	Sleep() bool
	// FD is a descriptor that becomes readable when the sleep is to end.
	FD() int
}

// QueueView is where a process sees the progress of a queue pair or of a shared receive queue. The
// owner of the loop calls it.
type QueueView interface {
	// Show shows the state, and the numbers of work requests modulo 2^32 that are off the queue.
	Show(s verbs.State, sendDone, recvDone uint32)
	// FindReceives passes receives that the process has posted to FeedRecv, and nothing else, within a budget.
	// It is called when a message needs a receive and none is queued. A message that was sent after a receive
	// was posted finds it so, whenever Take is called.
	FindReceives()
}

// CQSink takes the completions of a queue that another process polls. The owner of the loop calls
// it.
type CQSink interface {
	// Put stores a completion.
	Put(c verbs.Completion)
	// Publish shows what Put has stored since the last call. alert: one of them is solicited or an
	// error. false: there is no room for the last ones, which are lost.
	Publish(alert bool) bool
}

// CreateCQTo makes a completion queue whose completions go to a sink. Poll finds none.
func (d *Device) CreateCQTo(depth int, sink CQSink) (*CQ, error) {
	if depth < 1 || depth > MaxCQ {
		return nil, fmt.Errorf("nic: a completion queue of %d; choose 1 to %d", depth, MaxCQ)
	}
	c, err := d.createCQ(1)
	if err != nil {
		return nil, err
	}
	c.depth, c.sink = uint32(depth), sink
	return c, nil
}

func (c *CQ) completeTo(w verbs.Completion) {
	if !c.overrun {
		c.sink.Put(w)
		c.noteUpdate(w)
	}
}

// InLoop has the owner of the loop run f between two iterations, and waits for it. When the engine
// has ended, the callers run their functions, one after the other.
func (d *Device) InLoop(f func()) {
	if d.eng.do(f) {
		return
	}
	<-d.done
	d.ownerless.Lock()
	defer d.ownerless.Unlock()
	f()
}

// findReceives is qp.Config.Receives.
func (x *QP) findReceives() {
	switch {
	case x.srq != nil && x.srq.view != nil:
		x.srq.view.FindReceives()
	case x.srq == nil && x.view != nil:
		x.view.FindReceives()
	}
}

// SetView sets where another process sees the progress of the queue pair. Work requests of such a
// queue pair are posted by FeedSend and FeedRecv only.
func (x *QP) SetView(v QueueView) { x.dev.InLoop(func() { x.view = v; x.publish() }) }

// SetView sets where another process sees the progress of the queue.
func (s *SRQ) SetView(v QueueView) { s.dev.InLoop(func() { s.view = v; s.publish() }) }

// FeedSend is PostSend for a Feeder: the owner of the loop calls it. The transport checks the work request,
// and FeedSend the room and the address handle. FeedSend takes a datagram that is longer than the path's PMTU, and drops
// it when it is to be sent: the process has refused it, unless the PMTU has become smaller since the process has learnt it.
func (x *QP) FeedSend(wr *verbs.SendWR) error {
	if err := x.posting(); err != nil {
		return err
	}
	if err := x.checkPlace(wr, uint32(x.q.Config().MaxSend)); err != nil {
		return err
	}
	if err := x.dev.eng.putSend(x, wr); err != nil {
		return err
	}
	x.sendPosted++
	return nil
}

// FeedRecv is PostRecv for a Feeder.
func (x *QP) FeedRecv(wr *verbs.RecvWR) error {
	switch {
	case x.destroyed.Load():
		return errQPDestroyed
	case x.recvPosted-x.recvDone.Load() >= uint32(x.q.Config().MaxRecv):
		return verbs.ErrQueueFull
	}
	if err := x.dev.eng.putRecv(x, wr); err != nil {
		return err
	}
	x.recvPosted++
	return nil
}

// FeedRecv is PostRecv for a Feeder.
func (s *SRQ) FeedRecv(wr *verbs.RecvWR) error {
	switch {
	case s.users.ended():
		return errSRQDestroyed
	case len(wr.SGL) > s.conf.MaxSGE:
		return fmt.Errorf("%w: %d of %d", verbs.ErrSGL, len(wr.SGL), s.conf.MaxSGE)
	case s.posted-s.done.Load() >= uint32(s.conf.Max):
		return verbs.ErrQueueFull
	}
	s.posted++
	s.put(wr)
	return nil
}

// FeedBad takes an entry that is no work request which the queue pair takes, and ends the queue
// pair (IBTA 10.8.2.1: an immediate error, which for a ring can only be a completion). recv: the
// entry was in the receive queue. A Feeder calls it. It returns how many work requests it has flushed.
func (x *QP) FeedBad(id uint64, recv bool) (flushed int) {
	cq := x.send
	if recv {
		cq = x.recv
		x.recvPosted, x.recvLost = x.recvPosted+1, x.recvLost+1
	} else {
		x.sendPosted, x.sendLost = x.sendPosted+1, x.sendLost+1
	}
	if x.dead {
		return 0
	}
	if x.q.State() != verbs.StateReset { // which forgets work requests
		flushed = x.queued()
		_ = x.setState(verbs.StateErr) // possible from all other states
		cq.Complete(verbs.Completion{WRID: id, QPN: x.num, Status: verbs.StatusLocalQPOperation, Solicited: true})
	}
	x.publish()
	x.dev.eng.markDirty(x)
	return flushed
}

// queued is the number of work requests on the queues.
func (x *QP) queued() int { return x.transport.SendQueued() + x.q.RecvQueued() }

// Fail ends the queue pair because its ring is damaged. A Feeder calls it. It returns how many work
// requests it has flushed.
func (x *QP) Fail() (flushed int) {
	flushed = x.queued()
	if x.dead || x.setState(verbs.StateErr) != nil {
		return 0
	}
	x.publish()
	x.dev.event(verbs.Event{Type: verbs.EventQPFatal, QP: x})
	x.dev.eng.markDirty(x)
	return flushed
}

// FeedBad takes an entry that is no work request. Without a completion queue that it belongs to, it
// is left out.
func (s *SRQ) FeedBad() {
	s.posted, s.lost = s.posted+1, s.lost+1
	s.publish()
}
