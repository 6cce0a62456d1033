// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// QP is a queue pair of a core. Its zero value becomes one by AddQP. Where many are served one after the other, the
// caches do not hold their state: so what every message needs is close together in one object, and what few need at
// the end. The order of fields is that of lines of 64 bytes, of which package nic puts something of its own first.
//
// State, SendDone, RecvDone and Prefetch may be called by any goroutine; QPN, Type and Config once AddQP has returned. All
// else belongs to the goroutine of the core.
type QP struct {
	state              atomic.Uint32 // state that the core last showed
	sendDone, recvDone atomic.Uint32 // work requests that made room

	num                 uint32
	typ                 verbs.QPType
	dirty               bool
	ackWaiting          bool   // the queue pair is in timers.ackWait
	hooked              bool   // the queue pair uses the optional feature of the core (hooks.go)
	ackWaitSlot         uint32 // slot in timers.ackWait
	sendTaken, sendLost uint32

	q qp.QP // all but its Config

	dead                bool
	selective           bool // copy of dest.sack when it was last negotiated
	pkey                uint16
	recvTaken, recvLost uint32
	egress              // egress on the first interface
	timer               timer[*QP]
	srq                 *SRQ
	transport           transport   // transport of the packets: q, or one that works on q
	credit              *creditFlow // pre-credit's, nil unless it uses that

	core     *Core
	view     QueueView      // nil unless somebody is shown the progress
	internal *internalSends // nil without a distribution
	ooo      *oooQP         // nil unless it is in out-of-order mode
}

// QPConfig is what a queue pair is made with.
type QPConfig struct {
	// Config is that of the transport. QPN is the number; 0: the core
	// chooses it, and with OutOfOrder it always does. Count and Reorder may be nil, and SRQ is that of Shared.
	qp.Config
	Shared *SRQ // shared receive queue, or nil
	// OutOfOrder and Payload are those of verbs.QPInit, which CheckOutOfOrder has checked.
	OutOfOrder bool
	Payload    int
}

// QueueView is where the progress of a queue pair or of a shared receive queue is shown, to another process for
// example. The core calls it.
type QueueView interface {
	// Show shows the state, and the numbers of work requests modulo 2^32 that are off the queue.
	Show(s verbs.State, sendDone, recvDone uint32)
	// FindReceives passes receives that have been posted to Core.Recv or SRQ.Recv, and nothing else, within a budget.
	// It is called when a message needs a receive and none is queued. A message that was sent after a receive
	// was posted finds it so, wherever the receive waits.
	FindReceives()
}

// AddQP makes a queue pair in RESET and gives it a number. The error wraps verbs.ErrTooMany if all are in use.
func (e *Core) AddQP(x *QP, c QPConfig) (err error) {
	x.core, x.typ, x.srq = e, c.Type, c.Shared
	x.timer.Owner = x
	if c.OutOfOrder {
		x.ooo = &oooQP{x: x, payload: c.Payload}
	}
	if err = e.chooseTransport(x, c.QPN); err != nil {
		return fmt.Errorf("%w: %d exist", err, e.qps.Len())
	}
	conf := c.Config
	conf.QPN = x.num
	if conf.Count == nil {
		conf.Count = &e.qpCount
	}
	if conf.Reorder == nil {
		conf.Reorder = e.reorder
	}
	if x.srq != nil {
		conf.SRQ = x.srq.q
	}
	x.q.Init(conf)
	x.qp = x
	x.pkey = rocev2.DefaultPKey
	e.unroute(x)
	return nil
}

// RemoveQP removes a queue pair at once, whatever it does. Its work requests vanish without completions. It returns
// the paths that the queue pair had.
func (e *Core) RemoveQP(x *QP) (left []*Path) {
	x.publish()                      // an application that polls one of its completions may post once more
	_ = x.setState(verbs.StateReset) // gives back what it holds
	left = e.leave(x)
	e.timers.remove(x) // lists that it is in drop it when they come to it
	e.qps.Free(x.num)
	x.dead = true
	x.state.Store(uint32(verbs.StateReset))
	return left
}

// EndQP flushes the work requests of a queue pair when the program ends, and returns the paths that it had.
func (e *Core) EndQP(x *QP) (left []*Path) {
	_ = x.setState(verbs.StateErr) // refused in RESET: nothing to flush
	x.publish()
	return e.leave(x)
}

// leave takes a queue pair from all its destinations.
func (e *Core) leave(x *QP) (left []*Path) {
	if p := e.unroute(x); p != nil {
		left = append(left, p)
	}
	return append(left, e.leaveRails(x)...)
}

// ErrQPRemoved is returned for a queue pair that was removed.
var ErrQPRemoved = fmt.Errorf("nic: the queue pair %w", verbs.ErrDestroyed)

// QPN returns the number of the queue pair.
func (x *QP) QPN() uint32 { return x.num }

// SendQueued returns the number of work requests on the send queue, RecvQueued that on its own receive queue.
func (x *QP) SendQueued() int { return x.transport.SendQueued() }

// SendUsed returns how many places of Config.MaxSend are in use: work requests of distributions have others.
func (x *QP) SendUsed() int { return x.transport.SendUsed() }

// RecvQueued is SendQueued of the receive queue.
func (x *QP) RecvQueued() int { return x.q.RecvQueued() }

// Type returns its service.
func (x *QP) Type() verbs.QPType { return x.typ }

// State returns the state that was last shown.
func (x *QP) State() verbs.State { return verbs.State(x.state.Load()) }

// SendDone returns how many work requests have left the send queue, modulo 2^32, as last shown.
func (x *QP) SendDone() uint32 { return x.sendDone.Load() }

// RecvDone is SendDone of the receive queue.
func (x *QP) RecvDone() uint32 { return x.recvDone.Load() }

// Prefetch has the cache lines loaded that a work request needs, without waiting for them.
func (x *QP) Prefetch() { prefetch(x) }

// Config returns the configuration of the transport, which does not change.
func (x *QP) Config() *qp.Config { return x.q.Config() }

// Removed reports whether RemoveQP was called.
func (x *QP) Removed() bool { return x.dead }

// Attr returns the attributes as they are now, with the address.
func (x *QP) Attr() (verbs.Attr, error) {
	if x.dead {
		return verbs.Attr{}, ErrQPRemoved
	}
	a := x.q.Attr()
	a.AV = verbs.AddressVector{Src: x.src, TClass: x.Flow.TClass, HopLimit: x.Flow.HopLimit}
	if x.dest != nil {
		a.AV.Dst = x.dest.addr
	}
	return a, nil
}

// FatalReason returns why the queue pair has failed, to qp.Config.Notify with EventQPFatal; nil: the event says all.
func (x *QP) FatalReason() error {
	if x.ooo == nil {
		return nil
	}
	return x.ooo.refused
}

// SetView sets where the progress is shown.
func (x *QP) SetView(v QueueView) {
	x.view = v
	x.publish()
}

// FindReceives asks the view for receives that have been posted: qp.Config.Receives of a queue pair with a view.
func (x *QP) FindReceives() {
	switch {
	case x.srq != nil && x.srq.view != nil:
		x.srq.view.FindReceives()
	case x.srq == nil && x.view != nil:
		x.view.FindReceives()
	}
}

// Flush ends the queue pair with EventQPFatal. It returns how many work requests it has flushed.
func (x *QP) Flush() (flushed int) {
	flushed = x.queued()
	if x.dead || x.setState(verbs.StateErr) != nil {
		return 0
	}
	x.publish() // the state is visible before the event
	x.notify(verbs.EventQPFatal)
	x.core.tx.markDirty(x)
	return flushed
}

// Refuse completes a work request that the queue pair cannot take with an error, and ends the queue pair (IBTA
// 10.8.2.1). recv: it is of the receive queue. It returns how many work requests it has flushed.
func (x *QP) Refuse(id uint64, recv bool) (flushed int) {
	cq := x.q.Config().SendCQ
	if recv {
		cq = x.q.Config().RecvCQ
		x.recvLost++
	} else {
		x.sendLost++
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
	x.core.tx.markDirty(x)
	return flushed
}

// queued is the number of work requests on the queues.
func (x *QP) queued() int { return x.transport.SendQueued() + x.q.RecvQueued() }

func (x *QP) notify(t verbs.EventType) {
	if f := x.q.Config().Notify; f != nil {
		f(t)
	}
}

// show stores what mostly has not changed: a store costs some ten times the load.
func show(a *atomic.Uint32, v uint32) {
	if a.Load() != v {
		a.Store(v)
	}
}

// sendsDone is how many work requests have left the send queue, modulo 2^32.
func (x *QP) sendsDone() uint32 { return x.sendTaken + x.sendLost - uint32(x.sendUsed()) }

// publish shows applications what has become of the queue pair.
func (x *QP) publish() {
	show(&x.state, uint32(x.q.State()))
	show(&x.sendDone, x.sendsDone())
	show(&x.recvDone, x.recvTaken+x.recvLost-uint32(x.q.RecvQueued()))
	if x.view != nil {
		x.view.Show(verbs.State(x.state.Load()), x.sendDone.Load(), x.recvDone.Load())
	}
	if x.srq != nil {
		x.srq.publish()
	}
}

// ShowFailure shows the state of the queue pair with a number. A completion queue calls it before it takes a
// completion with an error: an application that polls a failure finds the queue pair in the state that the failure
// has put it into.
func (e *Core) ShowFailure(qpn uint32) {
	x := e.qps.Lookup(qpn)
	if x == nil {
		return
	}
	x.state.Store(uint32(x.q.State()))
	if x.view != nil {
		x.view.Show(x.q.State(), x.sendDone.Load(), x.recvDone.Load())
	}
}
