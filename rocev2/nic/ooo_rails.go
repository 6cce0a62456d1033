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

// A queue pair in out-of-order mode on several interfaces (rail.go). It has one more egress for each further
// interface. Package ooo is asked for the packets of that rail when the egress is in service.
//
// HELLO announces the mode on each interface. Data does not use a rail before.

var _ verbs.RailQP = (*QP)(nil)

// UseRails has a queue pair in out-of-order mode send and receive on further interfaces, too. Each
// address vector has an address of the peer on one more interface, and the address of the further
// interface of this device that leads there, which may be left out: the i-th vector is of the i-th
// further interface then. It is called in RESET or INIT, and waits for the neighbours.
func (x *QP) UseRails(to ...verbs.AddressVector) error {
	if x.ooo == nil {
		return errors.New("nic: only a queue pair in out-of-order mode uses several interfaces: create it with QPInit.OutOfOrder")
	}
	var list []egress
	var numbers []int // indices of the interfaces
	fail := func(err error) error {
		for i := range list {
			list[i].path.Release()
		}
		return err
	}
	for i, a := range to {
		n, err := x.dev.railFor(a.Src.Unmap(), i)
		if err != nil {
			return fail(err)
		}
		if slices.Contains(numbers, n) {
			return fail(fmt.Errorf("nic: interface %s is named twice: a queue pair has one address of the peer for each", x.dev.otherRails[n].name))
		}
		path, err := x.dev.resolveOn(x.dev.otherRails[n], a.Src, a.Dst)
		if err != nil {
			return fail(err)
		}
		to := address{path: path, flow: flow{TClass: a.TClass, HopLimit: a.HopLimit}}
		list = append(list, egress{qp: x, address: to, src: path.Current().Src})
		numbers = append(numbers, n)
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
		for i, n := range numbers {
			g := &list[i]
			g.dest = x.dev.eng.destinationOn(uint8(n+1), g.path)
			g.home = g.dest
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
	for i := range x.ooo.rails {
		g := &x.ooo.rails[i]
		if g.drr.Queued() {
			g.home.remove(g)
		}
		e.drop(g.dest)
		go g.path.Release() // it may wait for the table
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

// rails returns the egresses of the further interfaces. Only a queue pair in out-of-order mode has some.
func (x *QP) rails() []egress {
	if x.ooo == nil {
		return nil
	}
	return x.ooo.rails
}

// otherRail returns the further interface to which the peer has sent the packet, or nil.
func (x *QP) otherRail(p *rocev2.Packet) *egress {
	if x.ooo == nil {
		return nil
	}
	for i := range x.ooo.rails {
		if r := &x.ooo.rails[i]; p.Src() == r.dest.addr && p.Dst() == r.src {
			return r
		}
	}
	return nil
}

// egressAt returns the egress that sends to a destination, or nil.
func (x *QP) egressAt(d *dest) *egress {
	if x.home == d {
		return &x.egress
	}
	rails := x.rails()
	for i := range rails {
		if rails[i].home == d {
			return &rails[i]
		}
	}
	return nil
}

// rail returns which rail of package ooo an egress is.
func (o *oooQP) rail(g *egress) int {
	for i := range o.rails {
		if &o.rails[i] == g {
			return i + 1
		}
	}
	return 0
}

// arrivedOn returns the rail of package ooo by which a packet has come.
func (x *QP) arrivedOn(p *rocev2.Packet) uint8 {
	if g := x.otherRail(p); g != nil {
		return uint8(x.ooo.rail(g))
	}
	return 0
}

// answerBy returns the egress whose socket has room for a response, or nil.
func (e *engine) answerBy(x *QP) *egress {
	if e.hasFrame(&x.address) {
		return &x.egress
	}
	rails := x.rails()
	for i := range rails {
		if e.hasFrame(&rails[i].address) {
			return &rails[i]
		}
	}
	return nil
}

// forAnswer returns by which egress a response leaves: in out-of-order mode on the interface on which its packet has
// come, or on another one if the socket of that is full. One of them has room.
func (e *engine) forAnswer(x *QP, o *qp.Outbound) *egress {
	if x.ooo == nil || len(x.ooo.rails) == 0 {
		return &x.egress
	}
	if g := x.ooo.egress(int(o.Rail)); e.hasFrame(&g.address) {
		return g
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
