// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/engine"
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
	if err := engine.CheckOutOfOrder(&init); err != nil {
		return nil, err
	}
	u, err := p.usesOf(init)
	if err != nil {
		return nil, err
	}
	if err := u.acquire(); err != nil {
		return nil, err
	}
	x := &QP{pd: p, srq: u.srq, outOfOrder: init.OutOfOrder}
	if init.OutOfOrder {
		x.steered = new(steered)
	}
	conf := engine.QPConfig{
		Config: qp.Config{
			Type: init.Type, PD: p.num, Memory: d.mem, SendCQ: u.send, RecvCQ: u.recv,
			Notify:  func(e verbs.EventType) { d.event(verbs.Event{Type: e, QP: x, Err: x.fatalReason(e)}) },
			First:   func() { d.firstRequest(x) },
			Count:   p.count(),
			MaxSend: init.MaxSend, MaxRecv: init.MaxRecv, MaxSendSGE: init.MaxSendSGE, MaxRecvSGE: init.MaxRecvSGE,
			MaxInline: init.MaxInline, SignalAll: init.SignalAll, AckPackets: ackPackets,
		},
		OutOfOrder: init.OutOfOrder, Payload: init.Payload,
	}
	if u.srq != nil {
		conf.Shared = &u.srq.core
	}
	if d.eng.feeder != nil {
		conf.Receives = x.core.FindReceives
	}
	if err := d.do(func() error { return d.eng.addQP(x, u, conf) }); err != nil {
		u.release()
		return nil, fmt.Errorf("nic: create a queue pair: %w", err)
	}
	if err := d.dataplane.Steer(x.core.QPN()); err != nil {
		return nil, fmt.Errorf("nic: create a queue pair: %w", errors.Join(err, x.Destroy()))
	}
	return x, nil
}

// uses are the objects that a queue pair uses.
type uses struct {
	pd         *PD
	send, recv *CQ
	srq        *SRQ // nil: it has a receive queue of its own
}

// usesOf takes the objects of the application, which must be those of this package.
func (p *PD) usesOf(init verbs.QPInit) (u uses, err error) {
	u.pd = p
	u.send, _ = init.SendCQ.(*CQ)
	u.recv, _ = init.RecvCQ.(*CQ)
	u.srq, _ = init.SRQ.(*SRQ)
	switch {
	case u.send == nil || u.recv == nil || u.srq == nil && init.SRQ != nil:
		return u, errors.New("nic: the queues of a queue pair must be of its device")
	case u.srq != nil && u.srq.pd != p:
		// What works together is of one protection domain (IBTA 10.2.3).
		return u, errors.New("nic: the shared receive queue is of another protection domain than the queue pair: make it with that of the queue pair")
	}
	return u, nil
}

// uses returns what the queue pair uses.
func (x *QP) uses() uses {
	c := x.core.Config()
	return uses{x.pd, c.SendCQ.(*CQ), c.RecvCQ.(*CQ), x.srq}
}

// acquire takes references to all of them, or returns what is destroyed.
func (u uses) acquire() (err error) {
	var held []func()
	defer func() {
		if err != nil {
			for _, f := range held {
				f()
			}
		}
	}()
	for _, cq := range []*CQ{u.send, u.recv} {
		if cq.dev != u.pd.dev || !cq.users.join() {
			return fmt.Errorf("nic: completion queue: %w, or of another device", verbs.ErrDestroyed)
		}
		held = append(held, cq.users.leave)
	}
	if u.srq != nil {
		if u.srq.dev != u.pd.dev || !u.srq.users.join() {
			return fmt.Errorf("nic: shared receive queue: %w, or of another device", verbs.ErrDestroyed)
		}
		held = append(held, u.srq.users.leave)
	}
	return u.pd.acquire()
}

// release is the opposite of acquire.
func (u uses) release() {
	u.pd.dev.mem.ReleasePD(u.pd.num)
	u.send.users.leave()
	u.recv.users.leave()
	if u.srq != nil {
		u.srq.users.leave()
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

// fatalReason returns why the queue pair has failed, if that is what an event says.
func (x *QP) fatalReason(e verbs.EventType) error {
	if e != verbs.EventQPFatal {
		return nil
	}
	return x.core.FatalReason()
}

// QPN is the number of the queue pair.
func (x *QP) QPN() uint32 { return x.core.QPN() }

// Type is its service.
func (x *QP) Type() verbs.QPType { return x.core.Type() }

// State is where it stands.
func (x *QP) State() verbs.State { return x.core.State() }

// Query returns the attributes as they are now.
func (x *QP) Query() (a verbs.Attr, err error) {
	err = x.dev().do(func() (err error) { a, err = x.core.Attr(); return err })
	return a, err
}

// SendLimit returns why the queue pair sends nothing at this moment. qp.NotLimited means that
// its next packet leaves at once.
func (x *QP) SendLimit() (why qp.SendLimit, err error) {
	err = x.dev().do(func() error { why = x.core.SendLimit(); return nil })
	return why, err
}

// Destroy ends a queue pair at once, whatever it does. Its completions that were not
// polled stay; its work requests vanish without one.
func (x *QP) Destroy() error {
	if !x.destroyed.CompareAndSwap(false, true) {
		return engine.ErrQPRemoved
	}
	d, num := x.dev(), x.core.QPN()
	d.pairDestroyed(x) // while nobody else has its number
	err := errors.Join(append(x.unsteerRails(), d.dataplane.Unsteer(num))...)
	var left []*engine.Path
	// After the engine's end nothing runs: finish has flushed the queue pair and released its path.
	_ = d.eng.do(func() { left = d.eng.core.RemoveQP(&x.core) })
	release(left)
	d.mem.ReleaseQP(num)
	x.uses().release()
	return err
}

func (e *runner) addQP(x *QP, u uses, c engine.QPConfig) error {
	if u.send.overrun || u.recv.overrun {
		return errors.New("a completion queue has lost completions (EventCQError) and takes no more: make another")
	}
	return e.core.AddQP(&x.core, c)
}
