// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/engine"
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

// QueueView is where a process sees the progress of a queue pair or of a shared receive queue.
type QueueView = engine.QueueView

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
	if err := checkDepth(depth); err != nil {
		return nil, err
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

// SetView sets where another process sees the progress of the queue pair. Work requests of such a
// queue pair are posted by FeedSend and FeedRecv only.
func (x *QP) SetView(v QueueView) { x.dev().InLoop(func() { x.core.SetView(v) }) }

// SetView sets where another process sees the progress of the queue.
func (s *SRQ) SetView(v QueueView) { s.dev.InLoop(func() { s.core.SetView(v) }) }

// FeedSend is PostSend for a Feeder: the owner of the loop calls it. The transport checks the work request,
// and FeedSend the room and the address handle. FeedSend takes a datagram that is longer than the path's PMTU, and drops
// it when it is to be sent: the process has refused it, unless the PMTU has become smaller since the process has learnt it.
func (x *QP) FeedSend(wr *verbs.SendWR) error {
	if err := x.posting(); err != nil {
		return err
	}
	if err := x.checkPlace(wr, uint32(x.core.Config().MaxSend)); err != nil {
		return err
	}
	if err := x.dev().eng.core.Send(&x.core, wr); err != nil {
		return err
	}
	x.sendPosted++
	return nil
}

// FeedRecv is PostRecv for a Feeder.
func (x *QP) FeedRecv(wr *verbs.RecvWR) error {
	switch {
	case x.destroyed.Load():
		return engine.ErrQPRemoved
	case x.recvPosted-x.core.RecvDone() >= uint32(x.core.Config().MaxRecv):
		return verbs.ErrQueueFull
	}
	if err := x.dev().eng.core.Recv(&x.core, wr); err != nil {
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
	case s.posted-s.core.Done() >= uint32(s.conf.Max):
		return verbs.ErrQueueFull
	}
	s.posted++
	s.core.Recv(wr)
	return nil
}

// FeedBad takes an entry that is no work request which the queue pair takes, and ends the queue
// pair (IBTA 10.8.2.1: an immediate error, which for a ring can only be a completion). recv: the
// entry was in the receive queue. A Feeder calls it. It returns how many work requests it has flushed.
func (x *QP) FeedBad(id uint64, recv bool) (flushed int) {
	if recv {
		x.recvPosted++
	} else {
		x.sendPosted++
	}
	return x.core.Refuse(id, recv)
}

// Fail ends the queue pair because its ring is damaged. A Feeder calls it. It returns how many work
// requests it has flushed.
func (x *QP) Fail() (flushed int) { return x.core.Flush() }

// FeedBad takes an entry that is no work request. Without a completion queue that it belongs to, it
// is left out.
func (s *SRQ) FeedBad() {
	s.posted++
	s.core.Refuse()
}
