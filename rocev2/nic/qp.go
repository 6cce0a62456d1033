// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic/route"
	"github.com/softroce/softroce-xdp/rocev2/nic/sched"
	"github.com/softroce/softroce-xdp/rocev2/nic/wheel"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Limits of a queue pair.
const (
	MaxWR     = 1 << 15 // work requests of a queue
	MaxSGE    = 32      // elements of one
	MaxInline = 1024    // bytes of inline data
)

// ackPackets bounds how long the completions of small messages wait for the ACK of
// one that follows.
const ackPackets = 16

// QPInit says what to create. Zero values of the limits mean the defaults.
type QPInit struct {
	Type           qp.Type
	SendCQ, RecvCQ *CQ
	SRQ            *SRQ // RC and UD; MaxRecv and MaxRecvSGE are its own then

	MaxSend, MaxRecv       int // work requests; default 128
	MaxSendSGE, MaxRecvSGE int // default 1
	MaxInline              int // bytes; default 0
	SignalAll              bool
}

// Flow are the fields of IP that the application chooses.
type Flow struct {
	TClass   uint8 // IPv4 TOS, IPv6 traffic class
	HopLimit uint8 // 0 = 64
}

// Attr are the attributes of a queue pair: those of the transport and, with
// MaskPath, the address vector. RC and UC need it from INIT to RTR.
type Attr struct {
	qp.Attr
	Dst  netip.Addr // the peer; IPv4 also as a v4-mapped GID
	Src  netip.Addr // one of Device.GIDs; not valid: the kernel's choice
	Flow Flow
}

// MaskPath says that Modify sets Dst, Src and Flow.
const MaskPath qp.AttrMask = 1 << 30

// QP is a queue pair of a device. Where many are served one after the other, the caches do
// not hold their state: so what every message needs is close together in one object, what
// PostSend needs in its first two cache lines, and what few need at the end. The order
// of fields is that of lines of 64 bytes, behind the 8 bytes that Go's heap puts first.
type QP struct {
	// For applications.
	dev                    *Device
	state                  atomic.Uint32 // as the engine last showed it
	sendDone, recvDone     atomic.Uint32 // work requests that made room
	sendPosted, recvPosted uint32        // under posts.mu
	destroyed              atomic.Bool

	// The engine's.
	num                 uint32
	typ                 qp.Type
	dirty               bool
	ackWaiting          bool   // it is in engine.ackWait
	ackWaitSlot         uint32 // there
	sendTaken, sendLost uint32

	q qp.QP // all but its Config

	dead                bool
	selective           bool // what dest.sack was when it was last negotiated
	pkey                uint16
	port                uint16 // UDP source port
	flow                Flow
	recvTaken, recvLost uint32
	path                *route.Path
	dest                *dest           // where its peer lives; nil for UD
	home                *dest           // where it is queued to send
	drr                 sched.Flow[*QP] // in the queue of home
	srq                 *SRQ
	src                 netip.Addr
	timer               wheel.Timer[*QP]
	hooks               hooks       // nil unless it uses an optional feature
	credit              *creditFlow // pre-credit's, nil unless it uses that

	pd         *PD
	send, recv *CQ
	attr       qp.Attr // as Modify set it; under posts.mu
}

// CreateQP makes a queue pair in RESET.
func (d *Device) CreateQP(pd *PD, init QPInit) (*QP, error) {
	init, err := init.withDefaults()
	if err != nil {
		return nil, err
	}
	x := &QP{dev: d, pd: pd, typ: init.Type, send: init.SendCQ, recv: init.RecvCQ, srq: init.SRQ}
	if err := x.acquire(); err != nil {
		return nil, err
	}
	x.timer.Owner = x
	conf := qp.Config{
		Type: init.Type, PD: pd.num, Memory: d.mem, SendCQ: x.send, RecvCQ: x.recv,
		Notify: func(e qp.Event) { d.event(Event{Type: eventOf(e), QP: x}) },
		Count:  &d.eng.qpCount, Held: d.eng.held,
		MaxSend: init.MaxSend, MaxRecv: init.MaxRecv, MaxSendSGE: init.MaxSendSGE, MaxRecvSGE: init.MaxRecvSGE,
		MaxInline: init.MaxInline, SignalAll: init.SignalAll, AckPackets: ackPackets,
	}
	if x.srq != nil {
		conf.SRQ = x.srq.q
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
			return fmt.Errorf("nic: completion queue: %w, or of another device", ErrDestroyed)
		}
		held = append(held, cq.users.leave)
	}
	if x.srq != nil {
		if x.srq.dev != x.dev || !x.srq.users.join() {
			return fmt.Errorf("nic: shared receive queue: %w, or of another device", ErrDestroyed)
		}
		held = append(held, x.srq.users.leave)
	}
	return x.dev.acquirePD(x.pd)
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

func (i QPInit) withDefaults() (QPInit, error) {
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
	case i.Type < qp.RC || i.Type > qp.UD:
		return i, fmt.Errorf("nic: a queue pair of %s; choose RC, UC or UD", i.Type)
	case i.SendCQ == nil || i.RecvCQ == nil:
		return i, fmt.Errorf("nic: a queue pair needs a completion queue for each direction; both may be the same")
	case i.SRQ != nil && i.Type == qp.UC:
		return i, fmt.Errorf("nic: UC has no shared receive queue (IBTA 10.2.9)")
	}
	return i, nil
}

// QPN is the number of the queue pair.
func (x *QP) QPN() uint32 { return x.num }

// Type is its service.
func (x *QP) Type() qp.Type { return x.typ }

// State is where it stands.
func (x *QP) State() qp.State { return qp.State(x.state.Load()) }

// Query returns the attributes as they are now.
func (x *QP) Query() (a Attr, err error) {
	err = x.dev.do(func() error {
		if x.dead {
			return ErrDestroyed
		}
		a = Attr{Attr: x.q.Attr(), Src: x.src, Flow: x.flow}
		if x.dest != nil {
			a.Dst = x.dest.addr
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
	show(&x.sendDone, x.sendTaken+x.sendLost-uint32(x.q.SendQueued()))
	show(&x.recvDone, x.recvTaken+x.recvLost-uint32(x.q.RecvQueued()))
	if x.srq != nil {
		x.srq.publish()
	}
}

// Destroy ends a queue pair at once, whatever it does. Its completions that were not
// polled stay; its work requests vanish without one.
func (x *QP) Destroy() error {
	if !x.destroyed.CompareAndSwap(false, true) {
		return ErrDestroyed
	}
	err := x.dev.dataplane.Unsteer(x.num)
	var left *route.Path
	if !x.dev.eng.do(func() { left = x.dev.eng.removeQP(x) }) {
		return err
	}
	release(left)
	x.dev.mem.ReleaseQP(x.num)
	x.releaseAll()
	return err
}

func (e *engine) addQP(x *QP, conf qp.Config) (err error) {
	if x.send.overrun || x.recv.overrun {
		return errors.New("a completion queue has lost completions (EventCQError) and takes no more: make another")
	}
	if x.num, err = e.qps.Alloc(x); err != nil {
		return fmt.Errorf("%w: %d exist", err, e.qps.Len())
	}
	conf.QPN = x.num
	x.q.Init(conf)
	x.pkey = rocev2.DefaultPKey
	e.unroute(x)
	return nil
}

// removeQP removes a queue pair. Lists that it is in drop it when they come to it. It
// returns what unroute does.
func (e *engine) removeQP(x *QP) (left *route.Path) {
	_ = x.q.Modify(qp.Attr{State: qp.Reset}, qp.MaskState) // gives back what it holds
	left = e.unroute(x)
	e.qpTimers.Stop(&x.timer)
	if x.ackWaiting {
		e.ackWait.remove(x)
	}
	e.qps.Free(x.num)
	x.dead = true
	x.state.Store(uint32(qp.Reset))
	return left
}

// srcPort is the UDP source port of a packet.
func (x *QP) srcPort(o *qp.Outbound) uint16 {
	if o.AH == nil {
		return x.port
	}
	return rocev2.SourcePort(rocev2.FlowLabel(x.num, o.DestQP))
}
