// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

var _ verbs.RailDevice = (*Device)(nil)

// A device is on one interface, whose addresses are its GIDs. It may have further interfaces
// (the rails of Open), which only queue pairs in out-of-order mode use (ooo_rails.go). Each interface is a
// rail of the engine: it has its sockets, its data plane with the entries of its destinations, and the
// goroutines that work for these. The loop of the engine serves all of them.

// Rail is a further interface of a device.
type Rail struct {
	Interface string // name in the network namespace of the calling thread
	Dataplane Dataplane
}

// MaxRails is how many further interfaces a device may have.
const MaxRails = 7

func checkRails(rails []Rail) error {
	if len(rails) > MaxRails {
		return fmt.Errorf("nic: %d further interfaces; a device may have %d", len(rails), MaxRails)
	}
	return nil
}

// iface is an open interface.
type iface struct {
	name      string
	index     int
	mtu       int // MTU when the device was opened: the size that its frames have room for
	dataplane Dataplane
	routes    *route.Table
	socks     xsk.Set
}

// owns reports whether an address is one of the device's interfaces. A loopback device, and one
// without interfaces in tests, has no others.
func (d *Device) owns(a netip.Addr) bool {
	if d.routes == nil || slices.Contains(d.routes.GIDs(), a) {
		return true
	}
	return slices.ContainsFunc(d.otherRails, func(p *iface) bool { return slices.Contains(p.routes.GIDs(), a) })
}

// openIface opens a further interface.
func (d *Device) openIface(p *iface) (err error) {
	if p.routes, err = route.Open(p.name, route.Options{ResolveTimeout: d.opts.ResolveTimeout, OnEvent: d.railEvent}); err != nil {
		return err
	}
	if p.index, p.mtu, err = linkOf(p.name); err != nil {
		return err
	}
	if p.socks, err = d.openSockets(p.index, p.mtu); err != nil {
		return fmt.Errorf("nic: interface %s: %w", p.name, err)
	}
	for i, s := range p.socks {
		if err := p.dataplane.Register(i, s.FD()); err != nil {
			return err
		}
	}
	return nil
}

// release gives everything back that the interface has.
func (p *iface) release() (errs []error) {
	if p.routes != nil {
		errs = append(errs, p.routes.Close())
	}
	errs = append(errs, p.dataplane.Close())
	if p.socks != nil {
		errs = append(errs, p.socks.Close())
	}
	return errs
}

// sockets calls yield with the sockets of all interfaces.
func (d *Device) sockets(yield func(*xsk.Socket) bool) {
	for _, s := range d.socks {
		if !yield(s) {
			return
		}
	}
	for _, p := range d.otherRails {
		for _, s := range p.socks {
			if !yield(s) {
				return
			}
		}
	}
}

// railEvent is called when something happens to a further interface. The device ends with any of its
// interfaces.
func (d *Device) railEvent(e route.Event) {
	if e.Link.Gone {
		d.routeEvent(e)
	}
}

// linkOf returns the index of an interface and its MTU.
func linkOf(name string) (index, mtu int, err error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return 0, 0, fmt.Errorf("nic: interface %s: %w", name, err)
	}
	return i.Index, i.MTU, nil
}

// Rails implements verbs.RailDevice.
func (d *Device) Rails() ([]verbs.Port, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	var out []verbs.Port
	for _, p := range d.otherRails {
		l := p.routes.Link()
		out = append(out, verbs.Port{Active: l.Up && l.Carrier, MTU: l.MTU, GIDs: p.routes.GIDs()})
	}
	return out, nil
}

// addRail adds an open interface, and returns what the core needs of it.
func (e *runner) addRail(p iface) engine.RailConfig {
	r := &rail{index: len(e.rails), dataplane: p.dataplane, kick: newKicker()}
	for _, s := range p.socks {
		r.socks = append(r.socks, &sock{xsk: s, batch: s.NewBatch(rxBatch)})
	}
	r.sync.init()
	e.rails = append(e.rails, r)
	c := engine.RailConfig{Name: p.name, MTU: p.mtu, Runtime: p.dataplane.RuntimeConfig()}
	if len(p.socks) > 0 { // nothing leaves a loopback device
		for _, s := range r.socks[:len(p.socks.Senders(p.name, p.index))] {
			c.Ports = append(c.Ports, s)
		}
	}
	return c
}

// kicking reports that a second thread sends.
func (e *runner) kicking() bool {
	for _, r := range e.rails {
		if r.kick.busy.Load() && !r.kick.down.Load() {
			return true
		}
	}
	return false
}

// replied reports that a reply of a data plane is there.
func (e *runner) replied() bool {
	for _, r := range e.rails {
		if r.sync.done.Load() {
			return true
		}
	}
	return false
}

// end waits until the goroutines of the rail have ended.
func (r *rail) end() {
	r.kick.stop.Store(true)
	close(r.kick.wake)
	close(r.sync.wake)
	<-r.kick.ended
	<-r.sync.ended
}
