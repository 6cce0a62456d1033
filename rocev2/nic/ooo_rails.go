// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A queue pair in out-of-order mode on several interfaces (rail.go): which addresses and data planes it has there. The
// core does the rest.

// ErrNotOutOfOrder is wrapped by the Err of EventQPFatal when the peer has not announced out-of-order mode.
var ErrNotOutOfOrder = engine.ErrNotOutOfOrder

var _ verbs.RailQP = (*QP)(nil)

// UseRails has a queue pair in out-of-order mode send and receive on further interfaces, too. Each
// address vector has an address of the peer on one more interface, and the address of the further
// interface of this device that leads there, which may be left out: the i-th vector is of the i-th
// further interface then. It is called in RESET or INIT, and waits for the neighbours.
func (x *QP) UseRails(to ...verbs.AddressVector) error {
	if x.steered == nil {
		return errors.New("nic: only a queue pair in out-of-order mode uses several interfaces: create it with QPInit.OutOfOrder")
	}
	d := x.dev()
	var list []engine.RailPath
	fail := func(err error) error {
		for i := range list {
			list[i].Path.Release()
		}
		return err
	}
	for i, a := range to {
		n, err := d.railFor(a.Src.Unmap(), i)
		if err != nil {
			return fail(err)
		}
		if slices.ContainsFunc(list, func(p engine.RailPath) bool { return p.Rail == n+1 }) {
			return fail(fmt.Errorf("nic: interface %s is named twice: a queue pair has one address of the peer for each", d.otherRails[n].name))
		}
		path, err := d.resolveOn(d.otherRails[n], a.Src, a.Dst)
		if err != nil {
			return fail(err)
		}
		list = append(list, engine.RailPath{Rail: n + 1, Path: &path.Path, Flow: engine.Flow{TClass: a.TClass, HopLimit: a.HopLimit}})
		if err := x.steerRail(n); err != nil {
			return fail(err)
		}
	}
	if err := d.do(func() error { return d.eng.core.UseRails(&x.core, list) }); err != nil {
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

// steered are the further interfaces that hand packets for a queue pair to their sockets: a bit for each. The
// lock is held while one of them is told, so that none is told of a queue pair that Destroy has gone through.
type steered struct {
	mu   sync.Mutex
	bits uint32
}

// steerRail has a further interface hand packets for the queue pair to its sockets, as CreateQP does.
func (x *QP) steerRail(n int) error {
	s := x.steered
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := x.dev().otherRails[n]; {
	case x.destroyed.Load():
		return engine.ErrQPRemoved
	case s.bits>>n&1 != 0:
		return nil
	default:
		if err := p.dataplane.Steer(x.core.QPN()); err != nil {
			return fmt.Errorf("nic: interface %s: %w", p.name, err)
		}
		s.bits |= 1 << n
		return nil
	}
}

// unsteerRails has the further interfaces pass on packets to the queue pair, as Destroy does, which comes before.
func (x *QP) unsteerRails() (errs []error) {
	if x.steered == nil {
		return nil
	}
	s := x.steered
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, p := range x.dev().otherRails {
		if s.bits>>n&1 != 0 {
			errs = append(errs, p.dataplane.Unsteer(x.core.QPN()))
		}
	}
	s.bits = 0
	return errs
}

// RTO returns after what time the queue pair in out-of-order mode finds a packet lost if nothing is answered, of
// its path whose RTT is the largest. It is doubled for each such time so far.
func (x *QP) RTO() (d time.Duration, err error) {
	err = x.dev().do(func() error {
		t, err := x.core.RTO()
		d = time.Duration(t)
		return err
	})
	return d, err
}
