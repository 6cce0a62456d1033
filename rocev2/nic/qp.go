// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// ackPackets bounds how long the completions of small messages wait for the ACK of
// one that follows.
const ackPackets = 16

// CreateQP makes a queue pair in RESET. The limits that init leaves out are 128 work requests,
// 1 element and no inline data.
func (p *PD) CreateQP(init verbs.QPInit) (verbs.QP, error) {
	x, err := p.createQP(init)
	if err != nil {
		return nil, err
	}
	return x, nil
}

func (p *PD) createQP(init verbs.QPInit) (*QP, error) {
	d := p.dev
	init, err := withDefaults(init)
	if err != nil {
		return nil, err
	}
	x := &QP{dev: d, pd: p, typ: init.Type}
	if x.ooo, err = newOOO(x, &init); err != nil {
		return nil, err
	}
	if err := x.use(init); err != nil {
		return nil, err
	}
	if err := x.acquire(); err != nil {
		return nil, err
	}
	x.timer.Owner = x
	conf := qp.Config{
		Type: init.Type, PD: p.num, Memory: d.mem, SendCQ: x.send, RecvCQ: x.recv,
		Notify: func(e verbs.EventType) { d.event(verbs.Event{Type: e, QP: x}) },
		First:  func() { d.firstRequest(x) },
		Count:  p.count(), Reorder: d.eng.reorder,
		MaxSend: init.MaxSend, MaxRecv: init.MaxRecv, MaxSendSGE: init.MaxSendSGE, MaxRecvSGE: init.MaxRecvSGE,
		MaxInline: init.MaxInline, SignalAll: init.SignalAll, AckPackets: ackPackets,
	}
	if x.srq != nil {
		conf.SRQ = x.srq.q
	}
	if d.eng.feeder != nil {
		conf.Receives = x.findReceives
	}
	if err := d.do(func() error { return d.eng.addQP(x, conf) }); err != nil {
		x.releaseAll()
		return nil, fmt.Errorf("nic: create a queue pair: %w", err)
	}
	if err := d.dataplane.Steer(x.num); err != nil {
		return nil, fmt.Errorf("nic: create a queue pair: %w", errors.Join(err, x.Destroy()))
	}
	return x, nil
}

// use takes the objects of the application, which must be those of this package.
func (x *QP) use(init verbs.QPInit) error {
	x.send, _ = init.SendCQ.(*CQ)
	x.recv, _ = init.RecvCQ.(*CQ)
	x.srq, _ = init.SRQ.(*SRQ)
	switch {
	case x.send == nil || x.recv == nil || x.srq == nil && init.SRQ != nil:
		return errors.New("nic: the queues of a queue pair must be of its device")
	case x.srq != nil && x.srq.pd != x.pd:
		// What works together is of one protection domain (IBTA 10.2.3).
		return errors.New("nic: the shared receive queue is of another protection domain than the queue pair: make it with that of the queue pair")
	}
	return nil
}

// acquire takes references to all that the queue pair uses, or returns what is destroyed.
func (x *QP) acquire() (err error) {
	var held []func()
	defer func() {
		if err != nil {
			for _, f := range held {
				f()
			}
		}
	}()
	for _, cq := range []*CQ{x.send, x.recv} {
		if cq.dev != x.dev || !cq.users.join() {
			return fmt.Errorf("nic: completion queue: %w, or of another device", verbs.ErrDestroyed)
		}
		held = append(held, cq.users.leave)
	}
	if x.srq != nil {
		if x.srq.dev != x.dev || !x.srq.users.join() {
			return fmt.Errorf("nic: shared receive queue: %w, or of another device", verbs.ErrDestroyed)
		}
		held = append(held, x.srq.users.leave)
	}
	return x.pd.acquire()
}

// releaseAll is the opposite of acquire.
func (x *QP) releaseAll() {
	x.dev.mem.ReleasePD(x.pd.num)
	x.send.users.leave()
	x.recv.users.leave()
	if x.srq != nil {
		x.srq.users.leave()
	}
}

func withDefaults(i verbs.QPInit) (verbs.QPInit, error) {
	if i.SRQ != nil { // those of the SRQ count
		i.MaxRecv, i.MaxRecvSGE = 0, 0
	}
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&i.MaxSend, 128)
	def(&i.MaxRecv, 128)
	def(&i.MaxSendSGE, 1)
	def(&i.MaxRecvSGE, 1)
	within := func(what string, v, limit int) error {
		if v < 0 || v > limit {
			return fmt.Errorf("nic: %s is %d; choose 1 to %d", what, v, limit)
		}
		return nil
	}
	for _, err := range []error{
		within("MaxSend", i.MaxSend, MaxWR), within("MaxRecv", i.MaxRecv, MaxWR), within("MaxSendSGE", i.MaxSendSGE, MaxSGE),
		within("MaxRecvSGE", i.MaxRecvSGE, MaxSGE), within("MaxInline", i.MaxInline, MaxInline),
	} {
		if err != nil {
			return i, err
		}
	}
	switch {
	case i.Type < verbs.RC || i.Type > verbs.UD:
		return i, fmt.Errorf("nic: a queue pair of %s; choose RC, UC or UD", i.Type)
	case i.SendCQ == nil || i.RecvCQ == nil:
		return i, fmt.Errorf("nic: a queue pair needs a completion queue for each direction; both may be the same")
	case i.SRQ != nil && i.Type == verbs.UC:
		return i, fmt.Errorf("nic: UC has no shared receive queue (IBTA 10.2.9)")
	}
	return i, nil
}

// QPN is the number of the queue pair.
func (x *QP) QPN() uint32 { return x.num }

// Type is its service.
func (x *QP) Type() verbs.QPType { return x.typ }

// State is where it stands.
func (x *QP) State() verbs.State { return verbs.State(x.state.Load()) }

// Query returns the attributes as they are now.
func (x *QP) Query() (a verbs.Attr, err error) {
	err = x.dev.do(func() error {
		if x.dead {
			return errQPDestroyed
		}
		a = x.q.Attr()
		a.AV = verbs.AddressVector{Src: x.src, TClass: x.flow.TClass, HopLimit: x.flow.HopLimit}
		if x.dest != nil {
			a.AV.Dst = x.dest.addr
		}
		return nil
	})
	return a, err
}

// show stores what mostly has not changed: a store costs some ten times the load.
func show(a *atomic.Uint32, v uint32) {
	if a.Load() != v {
		a.Store(v)
	}
}

// publish shows applications what has become of the queue pair.
func (x *QP) publish() {
	show(&x.state, uint32(x.q.State()))
	show(&x.sendDone, x.sendTaken+x.sendLost-uint32(x.sendUsed()))
	show(&x.recvDone, x.recvTaken+x.recvLost-uint32(x.q.RecvQueued()))
	if x.view != nil {
		x.view.Show(verbs.State(x.state.Load()), x.sendDone.Load(), x.recvDone.Load())
	}
	if x.srq != nil {
		x.srq.publish()
	}
}

// Destroy ends a queue pair at once, whatever it does. Its completions that were not
// polled stay; its work requests vanish without one.
func (x *QP) Destroy() error {
	if !x.destroyed.CompareAndSwap(false, true) {
		return errQPDestroyed
	}
	x.dev.pairDestroyed(x) // while nobody else has its number
	err := errors.Join(append(x.unsteerRails(), x.dev.dataplane.Unsteer(x.num))...)
	var left *route.Path
	// After the engine's end nothing runs: finish has flushed the queue pair and released its path.
	_ = x.dev.eng.do(func() { left = x.dev.eng.removeQP(x) })
	release(left)
	x.dev.mem.ReleaseQP(x.num)
	x.releaseAll()
	return err
}

func (e *engine) addQP(x *QP, conf qp.Config) (err error) {
	if x.send.overrun || x.recv.overrun {
		return errors.New("a completion queue has lost completions (EventCQError) and takes no more: make another")
	}
	if err = e.chooseTransport(x); err != nil {
		return fmt.Errorf("%w: %d exist", err, e.qps.Len())
	}
	conf.QPN = x.num
	x.q.Init(conf)
	x.qp = x
	x.pkey = rocev2.DefaultPKey
	e.unroute(x)
	return nil
}

// removeQP removes a queue pair. Lists that it is in drop it when they come to it. It
// returns what unroute does.
func (e *engine) removeQP(x *QP) (left *route.Path) {
	_ = x.setState(verbs.StateReset) // gives back what it holds
	left = e.unroute(x)
	e.leaveRails(x)
	e.qpTimers.Stop(&x.timer)
	if x.ackWaiting {
		e.ackWait.remove(x)
	}
	e.qps.Free(x.num)
	x.dead = true
	x.state.Store(uint32(verbs.StateReset))
	return left
}
