// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/qpn"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Out-of-order mode (S3, package ooo, docs/change/out-of-order.md) of a queue pair of RC. This file has its
// life, ooo_post.go the send queue, ooo_wire.go its packets. transport.go calls all of it.
//
// HELLO announces the mode for a host, the number of a queue pair that it is in the mode. A queue pair
// refuses a peer's number without that mark at once. Data waits until HELLO has announced the peer, for
// oooAskTime at most.

// Times of the wait for HELLO. The agent of a host whose engine has just been opened announces it within
// seconds.
const (
	oooAskPeriod = qp.Time(20e6)
	oooAskTime   = qp.Time(10e9)
)

// A notification is repeated for half a minute while the target has no receive work request.
const (
	oooNotReadyTries = 1<<16 - 1
	oooNotReadyDelay = 500 * ooo.Microsecond
)

// oooEngineDelay is how long an answer may wait for the threads of the two engines, which share processors with
// others and take packets in batches. That is neither loss nor a queue of the network. The rate of the destination
// limits the latter.
const oooEngineDelay = 8 * ooo.Millisecond

// oooQP is what a queue pair has for out-of-order mode.
type oooQP struct {
	x       *QP
	q       *ooo.QP // nil in RESET and INIT
	access  verbs.Access
	payload int // most data of a packet, 0 = that of the PMTU

	oooSendQueue

	rails     []oooRail // rails on further interfaces
	steered   steered
	announced bool    // HELLO has announced the peer, or it has sent packets of the mode
	askAt     qp.Time // time of the next check, 0 = nothing waits for HELLO
	askUntil  qp.Time
}

// oooState is what the engine has for the queue pairs in the mode.
type oooState struct {
	out   qp.Outbound
	next  ooo.Outbound
	count ooo.Counters
}

// newOOO returns the transport of a queue pair that was created with OutOfOrder, or nil.
func newOOO(x *QP, init *verbs.QPInit) (*oooQP, error) {
	switch {
	case !init.OutOfOrder && init.Payload != 0:
		return nil, errors.New("nic: Payload is of out-of-order mode: leave it out, or set OutOfOrder")
	case !init.OutOfOrder:
		return nil, nil
	case init.Type != verbs.RC:
		return nil, fmt.Errorf("nic: out-of-order mode with %s: choose RC", init.Type)
	case init.MaxSendSGE > 1 || init.MaxInline > 0:
		return nil, fmt.Errorf("nic: out-of-order mode has lists of one element and no inline data: MaxSendSGE is %d, MaxInline %d", init.MaxSendSGE, init.MaxInline)
	}
	if init.Payload != 0 {
		if err := ooo.CheckPayload(init.Payload); err != nil {
			return nil, fmt.Errorf("nic: %w", err)
		}
	}
	return &oooQP{x: x, payload: init.Payload}, nil
}

// modify implements QP.modify. All changes of state come here, except those that the transport makes.
func (o *oooQP) modify(a verbs.Attr, mask verbs.AttrMask) error {
	from := o.x.q.State()
	if err := checkOrder(&a, mask); err != nil {
		return err
	}
	if err := o.x.q.Modify(a, mask); err != nil {
		return err
	}
	attr := o.x.q.Attr()
	o.access = attr.Access
	if attr.State == from {
		return nil
	}
	return o.entered(&attr)
}

// fits judges the packets of the mode by the path of a new connection, the paths of further interfaces, and the
// frames of each.
func (o *oooQP) fits(m rocev2.PMTU, path *route.Path) error {
	if err := o.fitsPath(m, path.Current(), o.x.dev.mtu, o.x.dev.opts.Interface); err != nil {
		return err
	}
	for i := range o.rails {
		r := &o.rails[i]
		p := o.x.dev.otherRails[r.dest.rail-1]
		if err := o.fitsPath(m, r.path.Current(), p.mtu, p.name); err != nil {
			return err
		}
	}
	return nil
}

func (o *oooQP) fitsPath(m rocev2.PMTU, to *route.State, frame int, name string) error {
	mtu := min(to.MTU, frame)
	if o.payload == 0 {
		if need := m.Bytes() + max(rocev2.PMTUOverhead, ooo.Overhead(to.Dst.Is6())); need > mtu {
			return fmt.Errorf("nic: a PMTU of %d does not fit interface %s, which needs an MTU of %d: choose less", m.Bytes(), name, need)
		}
		return nil
	}
	most, _ := ooo.PayloadForMTU(mtu, to.Dst.Is6())
	if to.Loopback { // without the stamp
		most = mtu - ooo.Overhead(to.Dst.Is6())
	}
	if o.payload > most {
		return fmt.Errorf("nic: Payload is %d, and the MTU of %d of interface %s has room for %d: choose less", o.payload, mtu, name, most)
	}
	return nil
}

// checkOrder refuses what the mode does not have.
func checkOrder(a *verbs.Attr, mask verbs.AttrMask) error {
	switch {
	case mask&verbs.MaskDestQPN != 0 && !qpn.OutOfOrder(a.DestQPN):
		return fmt.Errorf("nic: queue pair %#x of the peer is not in out-of-order mode: create it with QPInit.OutOfOrder", a.DestQPN)
	case mask&verbs.MaskState != 0 && a.State == verbs.StateSQD:
		return fmt.Errorf("nic: a queue pair in out-of-order mode has no state %s: wait for its completions", a.State)
	}
	return nil
}

// entered acts on a new state.
func (o *oooQP) entered(a *verbs.Attr) (err error) {
	switch a.State {
	case verbs.StateReset:
		o.q, o.announced, o.askAt = nil, false, 0
		o.forget()
	case verbs.StateRTR:
		o.q, err = ooo.New(o.config(a))
	case verbs.StateRTS:
		o.q.SetSendPSN(a.SQPSN)
	case verbs.StateErr:
		o.close(verbs.StatusWRFlushed)
	}
	return err
}

func (o *oooQP) config(a *verbs.Attr) ooo.Config {
	c := o.x.q.Config()
	conf := ooo.Config{
		QPN: o.x.num, PeerQPN: a.DestQPN, PD: c.PD, RecvPSN: a.RQPSN, PMTU: a.PMTU, Payload: o.payload, Seed: uint64(o.x.num),
		Messages: oooMessages(c.MaxSend), Memory: oooMemory{c.Memory, o}, Deliver: o.deliver, Complete: o.complete,
		Count: &o.x.dev.eng.ooo.count, NotReadyTries: oooNotReadyTries, NotReadyDelay: oooNotReadyDelay,
		MinRTO: oooEngineDelay, MinQueueing: oooEngineDelay,
	}
	o.configRails(&conf)
	return conf
}

// close completes all work requests: the first one of those that were not begun with this status, if none
// was begun, and the others as flushed.
func (o *oooQP) close(first verbs.Status) {
	if o.q != nil {
		o.q.Close()
	}
	o.askAt = 0
	o.flushWaiting(first)
}

// fail moves the queue pair to ERR. The first work request that was not begun has this status.
func (o *oooQP) fail(first verbs.Status) {
	if o.x.q.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState) == nil {
		o.close(first)
	}
}

// mayStart reports whether data may be sent: the peer understands it.
func (o *oooQP) mayStart() bool {
	x := o.x
	if !o.announced && x.path != nil {
		o.announced = x.dest.ooo || x.path.Current().Loopback
	}
	return o.announced
}

// ask begins the wait for HELLO where work waits for it, or ends it.
func (o *oooQP) ask(now qp.Time) {
	switch {
	case o.mayStart() || o.waiting.len() == 0:
		o.askAt = 0
	case o.askAt == 0:
		o.askUntil = now + oooAskTime
		fallthrough
	default:
		o.askAt = now + oooAskPeriod
		if d := o.x.dest; d != nil {
			o.x.dev.eng.queueForSync(d)
		}
	}
}

// refused ends the queue pair if HELLO has not announced the peer in time.
func (o *oooQP) refused(now qp.Time) bool {
	if o.askAt == 0 || now < o.askUntil || o.mayStart() {
		return false
	}
	o.fail(verbs.StatusRemoteInvalidRequest)
	o.x.publish() // the state is visible before the event
	o.x.dev.event(verbs.Event{Type: verbs.EventQPFatal, QP: o.x, Err: fmt.Errorf("nic: %s: %w", o.x.dest.addr, ErrNotOutOfOrder)})
	return true
}

// ErrNotOutOfOrder is wrapped by the Err of EventQPFatal when the peer has not announced out-of-order mode.
var ErrNotOutOfOrder = fmt.Errorf("the host has not announced out-of-order mode within %d s: attach it with a softroce engine that has it, or use RC", oooAskTime/1e9)

func (o *oooQP) deadline() qp.Time {
	at := o.askAt
	if o.q != nil {
		if d := qp.Time(o.q.Deadline()); at == 0 || d != 0 && d < at {
			at = d
		}
	}
	return at
}

func (o *oooQP) expire(e *engine) {
	if o.askAt != 0 && e.now >= o.askAt {
		if o.refused(e.now) {
			return
		}
		o.ask(e.now)
	}
	if o.q != nil {
		o.q.Expire(ooo.Time(e.now))
		o.settle()
	}
}

// sendLimit returns why nextData has no packet, as far as the mode tells.
func (o *oooQP) sendLimit() qp.SendLimit {
	switch {
	case o.x.q.State() != verbs.StateRTS:
		return qp.LimitState
	case o.queued == 0:
		return qp.LimitNoWork
	case o.askAt != 0:
		return qp.LimitHalted
	}
	return qp.LimitLossWindow
}

// oooMemory is the memory as the peer may use it: the rights of the queue pair count too (IBTA 9.7.4.1.4).
type oooMemory struct {
	mem.Memory
	o *oooQP
}

func (m oooMemory) WriteRemote(pd, num, rkey uint32, addr uint64, src []byte) mem.Fault {
	if m.o.access&verbs.AccessRemoteWrite == 0 && len(src) > 0 {
		return mem.FaultRights
	}
	return m.Memory.WriteRemote(pd, num, rkey, addr, src)
}

func (m oooMemory) CheckRemote(pd, num, rkey uint32, addr uint64, n uint32, need verbs.Access) mem.Fault {
	if m.o.access&need != need && n > 0 {
		return mem.FaultRights
	}
	return m.Memory.CheckRemote(pd, num, rkey, addr, n, need)
}

// deliver takes a notification: it completes a receive work request.
func (o *oooQP) deliver(queue uint32, n ooo.Notification) rocev2.ONakCode {
	switch {
	case queue != 0: // the receive queue of the queue pair
		return rocev2.ONakInvalidRequest
	case !o.x.q.CompleteRecv(verbs.Completion{
		Op: verbs.OpRecvNotify, Bytes: n.Length, Imm: uint32(n.Descriptor), HasImm: true, Solicited: n.Solicited,
	}):
		return rocev2.ONakNotReady
	}
	return 0
}
