// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A queue pair in out-of-order mode on several interfaces (rail.go). Where packets leave, a queue pair
// has one path and is queued at one destination. So for each further interface there is an egress: a QP
// that has only the path, the destination and the place in its queue. Package ooo is asked for the
// packets of that rail when the egress is in service. All the rest is the queue pair's own.
//
// HELLO announces the mode on each interface. Data does not use a rail before.

var _ verbs.RailQP = (*QP)(nil)

// egress is the part of a queue pair on one further interface. Rail i+1 of package ooo is the i-th.
type egress struct {
	*QP
	number uint8 // number of the rail of the device, from 1
}

// UseRails has a queue pair in out-of-order mode send and receive on further interfaces, too. Each
// address vector has an address of the peer on one more interface, and the address of the further
// interface of this device that leads there, which may be left out: the i-th vector is of the i-th
// further interface then. It is called in RESET or INIT, and waits for the neighbours.
func (x *QP) UseRails(to ...verbs.AddressVector) error {
	if x.ooo == nil {
		return errors.New("nic: only a queue pair in out-of-order mode uses several interfaces: create it with QPInit.OutOfOrder")
	}
	var list []egress
	fail := func(err error) error {
		for _, s := range list {
			s.path.Release()
		}
		return err
	}
	used := make([]bool, len(x.dev.otherRails))
	for i, a := range to {
		n, err := x.dev.railFor(a.Src.Unmap(), i)
		if err != nil {
			return fail(err)
		}
		if used[n] {
			return fail(fmt.Errorf("nic: interface %s is named twice: a queue pair has one address of the peer for each", x.dev.otherRails[n].name))
		}
		used[n] = true
		path, err := x.dev.resolveOn(x.dev.otherRails[n], a.Src, a.Dst)
		if err != nil {
			return fail(err)
		}
		y := &QP{
			dev: x.dev, typ: x.typ, num: x.num, pd: x.pd, ooo: x.ooo, transport: x.transport, rail: uint8(i + 1),
			path: path, flow: flow{a.TClass, a.HopLimit}, src: path.Current().Src,
		}
		list = append(list, egress{QP: y, number: uint8(n + 1)})
		if err := x.steerRail(n); err != nil {
			return fail(err)
		}
	}
	err := x.dev.do(func() error {
		switch s := x.q.State(); {
		case x.dead:
			return errQPDestroyed
		case s != verbs.StateReset && s != verbs.StateInit:
			return fmt.Errorf("nic: UseRails comes before RTR; the queue pair is in %s", s)
		case len(x.ooo.rails) > 0:
			return errors.New("nic: the queue pair has its interfaces already; only RESET takes them back")
		}
		for _, s := range list {
			s.dest = x.dev.eng.destinationOn(s.number, s.path)
			s.home = s.dest
		}
		x.ooo.rails = list
		return nil
	})
	if err != nil {
		return fail(err)
	}
	return nil
}

// railFor returns which further interface has the address, or the i-th if there is none.
func (d *Device) railFor(src netip.Addr, i int) (int, error) {
	if !src.IsValid() {
		if i >= len(d.otherRails) {
			return 0, fmt.Errorf("nic: the device has %d further interfaces: open it with more (engine.Config.Rails)", len(d.otherRails))
		}
		return i, nil
	}
	for n, p := range d.otherRails {
		if slices.Contains(p.routes.GIDs(), src) {
			return n, nil
		}
	}
	return 0, fmt.Errorf("nic: none of the %d further interfaces of the device has the address %s: open it with the one that has (engine.Config.Rails)",
		len(d.otherRails), src)
}

// resolveOn is resolve on a further interface.
func (d *Device) resolveOn(p *iface, src, dst netip.Addr) (*route.Path, error) {
	path, err := d.resolveBy(p.routes, p.name, src, dst)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", p.name, err)
	}
	return path, nil
}

// leaveRails takes the queue pair from its further interfaces.
func (e *engine) leaveRails(x *QP) {
	if x.ooo == nil {
		return
	}
	for _, s := range x.ooo.rails {
		if s.drr.Queued() {
			s.home.remove(s.QP)
		}
		e.drop(s.dest)
		go s.path.Release() // it may wait for the table
	}
	x.ooo.rails = nil
}

// steered are the further interfaces that hand packets for a queue pair to their sockets: a bit for each. The
// lock is held while one of them is told, so that none is told of a queue pair that Destroy has gone through.
type steered struct {
	mu   sync.Mutex
	bits uint32
}

// steerRail has a further interface hand packets for the queue pair to its sockets, as CreateQP does.
func (x *QP) steerRail(n int) error {
	s := &x.ooo.steered
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := x.dev.otherRails[n]; {
	case x.destroyed.Load():
		return errQPDestroyed
	case s.bits>>n&1 != 0:
		return nil
	default:
		if err := p.dataplane.Steer(x.num); err != nil {
			return fmt.Errorf("nic: interface %s: %w", p.name, err)
		}
		s.bits |= 1 << n
		return nil
	}
}

// unsteerRails has the further interfaces pass on packets to the queue pair, as Destroy does, which comes before.
func (x *QP) unsteerRails() (errs []error) {
	if x.ooo == nil {
		return nil
	}
	s := &x.ooo.steered
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, p := range x.dev.otherRails {
		if s.bits>>n&1 != 0 {
			errs = append(errs, p.dataplane.Unsteer(x.num))
		}
	}
	s.bits = 0
	return errs
}

// whole returns the queue pair of an egress, or the queue pair itself.
func (x *QP) whole() *QP {
	if x.ooo != nil {
		return x.ooo.x
	}
	return x
}

// egressFor returns the egress to whose interface the peer has sent the packet, or nil.
func (x *QP) egressFor(p *rocev2.Packet) *QP {
	if x.ooo == nil {
		return nil
	}
	for _, s := range x.ooo.rails {
		if p.Src() == s.dest.addr && p.Dst() == s.src {
			return s.QP
		}
	}
	return nil
}

// queuedAt returns the queue pair or its egress that sends to a destination, or nil.
func (x *QP) queuedAt(d *dest) *QP {
	if x.home == d {
		return x
	}
	if x.ooo != nil {
		for _, s := range x.ooo.rails {
			if s.home == d {
				return s.QP
			}
		}
	}
	return nil
}

// enqueueEgresses is enqueue for the further interfaces.
func (e *engine) enqueueEgresses(x *QP) {
	if x.ooo != nil {
		for _, s := range x.ooo.rails {
			e.enqueue(s.QP)
		}
	}
}

// arrivedOn returns the rail of package ooo by which a packet has come.
func (x *QP) arrivedOn(p *rocev2.Packet) uint8 {
	if y := x.egressFor(p); y != nil {
		return y.rail
	}
	return 0
}

// answerBy returns the queue pair or the egress whose socket has room for a response, or nil.
func (e *engine) answerBy(x *QP) *QP {
	if e.hasFrame(x) {
		return x
	}
	if x.ooo != nil {
		for _, s := range x.ooo.rails {
			if e.hasFrame(s.QP) {
				return s.QP
			}
		}
	}
	return nil
}

// forAnswer returns by whom a response of package ooo leaves: on the interface on which its packet has
// come, or on another one if the socket of that is full. One of them has room.
func (x *QP) forAnswer(e *engine, o *qp.Outbound) *QP {
	if x.ooo == nil || len(x.ooo.rails) == 0 {
		return x
	}
	if y := x.ooo.egress(int(o.Rail)); e.hasFrame(y) {
		return y
	}
	return e.answerBy(x)
}

// RTO returns after what time the queue pair in out-of-order mode finds a packet lost if nothing is answered, of
// its path whose RTT is the largest. It is doubled for each such time so far.
func (x *QP) RTO() (d time.Duration, err error) {
	err = x.dev.do(func() error {
		t, ok := x.transport.(*ooo.Transport)
		if !ok || t.QP() == nil {
			return errors.New("nic: only a queue pair in out-of-order mode that is connected has this RTO")
		}
		d = time.Duration(t.QP().RTO())
		return nil
	})
	return d, err
}
