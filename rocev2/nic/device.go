// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

var _ verbs.Device = (*Device)(nil)

// Open makes a device on an interface that the data plane is attached to. The device
// owns w from here on and closes it, also if Open fails. rails are further interfaces, for queue pairs
// in out-of-order mode (QP.UseRails); the device owns their data planes in the same way.
func Open(w Dataplane, o Options, rails ...Rail) (_ *Device, err error) {
	d := &Device{opts: o.withDefaults(), allow: o.Allow, dataplane: w, done: make(chan struct{}), events: make(chan verbs.Event, eventBacklog)}
	defer func() {
		if err != nil {
			d.release()
		}
	}()
	for _, r := range rails {
		d.otherRails = append(d.otherRails, &iface{name: r.Interface, dataplane: r.Dataplane})
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := checkRails(rails); err != nil {
		return nil, err
	}
	if d.mem, err = mr.New(mr.Config{Keys: o.Keys}); err != nil {
		return nil, err
	}
	if d.routes, err = route.Open(o.Interface, route.Options{ResolveTimeout: d.opts.ResolveTimeout, OnEvent: d.routeEvent}); err != nil {
		return nil, err
	}
	index, mtu, err := d.link()
	if err != nil {
		return nil, err
	}
	d.mtu = mtu
	if d.socks, err = d.openSockets(index, mtu); err != nil {
		return nil, err
	}
	for _, p := range d.otherRails {
		if err := d.openIface(p); err != nil {
			return nil, err
		}
	}
	if d.eng, err = newRunner(d); err != nil {
		return nil, err
	}
	for i, s := range d.socks {
		if err := w.Register(i, s.FD()); err != nil {
			return nil, err
		}
	}
	if d.opts.PreCredit {
		if err := w.Steer(rocev2.ControlQPN); err != nil {
			return nil, err
		}
		d.eng.core.UsePreCredit(engine.PreCredit{
			LinkRate: w.RuntimeConfig().LinkRate, Frames: d.opts.RxFrames, LargeDSCP: d.opts.LargeDSCP, Hold: creditHold,
			FirstEpoch: engine.FirstEpoch(d.opts.CreditEpoch, time.Now()), Epoch: d.opts.CreditEpoch,
		})
	}
	d.eng.start()
	return d, nil
}

// creditHold is how long first data waits for a grant.
var creditHold = engine.CreditHold

// etherLen is the length of an Ethernet header, bytes.
const etherLen = 14

func (o Options) check() error {
	switch {
	case o.LargeDSCP > 63:
		return fmt.Errorf("nic: LargeDSCP is %d; choose 1 to 63, or 0 for none", o.LargeDSCP)
	case o.LargeDSCP != 0 && !o.PreCredit:
		return errors.New("nic: LargeDSCP needs PreCredit: without it nothing tells large flows from small ones")
	}
	return nil
}

func (o Options) withDefaults() Options {
	switch {
	case o.Spin == 0:
		o.Spin = 20 * time.Microsecond
	case o.Spin < 0:
		o.Spin = 0
	}
	if o.ResolveTimeout == 0 {
		o.ResolveTimeout = 4 * time.Second
	}
	if o.RxFrames == 0 {
		o.RxFrames = 4096
	}
	if o.TxFrames == 0 {
		o.TxFrames = 512
	}
	return o
}

// link returns the index of the interface and its MTU.
func (d *Device) link() (index, mtu int, err error) {
	return linkOf(d.opts.Interface)
}

// maxFrame is the longest frame of an MTU.
func maxFrame(mtu int) int { return etherLen + mtu }

func (d *Device) openSockets(index, mtu int) (xsk.Set, error) {
	const frameSize = 4096
	c := xsk.Config{
		Ifindex: index, FrameSize: frameSize, RxFrames: d.opts.RxFrames, RxReserve: d.opts.RxFrames / 2, TxFrames: d.opts.TxFrames,
		TxPacket: maxFrame(mtu), Mode: d.opts.Mode, BusyPoll: d.opts.BusyPoll,
	}
	c.SG = maxFrame(mtu)+8 > frameSize-256
	return xsk.OpenAll(c)
}

// resolve finds the route to a peer and waits for its neighbour. A source that the kernel
// chose is kept: the peer accepts packets from that address only, and the kernel may choose
// another one when addresses or routes have changed.
func (d *Device) resolve(src, dst netip.Addr) (*route.Path, error) {
	return d.resolveBy(d.routes, d.opts.Interface, src, dst)
}

// resolveBy is resolve through an interface of the device.
func (d *Device) resolveBy(routes *route.Table, ifname string, src, dst netip.Addr) (*route.Path, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.opts.ResolveTimeout)
	defer cancel()
	return d.resolveUntil(ctx, routes, ifname, src, dst)
}

// resolveUntil waits for the neighbour until ctx ends.
func (d *Device) resolveUntil(ctx context.Context, routes *route.Table, ifname string, src, dst netip.Addr) (*route.Path, error) {
	if err := d.allowed(dst); err != nil {
		return nil, err
	}
	if routes == nil {
		return loopbackPath(src, dst)
	}
	if !src.IsValid() {
		p, err := routes.Resolve(dst)
		if p, err = d.usable(ctx, ifname, p, err); err != nil {
			return nil, err
		}
		defer p.Release()
		src = p.Current().Src
	}
	p, err := routes.ResolveFrom(src, dst)
	return d.usable(ctx, ifname, p, err)
}

// usable waits for the neighbour of a path that was resolved.
func (d *Device) usable(ctx context.Context, ifname string, p *route.Path, err error) (*route.Path, error) {
	if err != nil {
		return nil, fmt.Errorf("nic: %w", err)
	}
	if _, err := p.Wait(ctx); err != nil {
		hop := p.Current().NextHop
		p.Release()
		return nil, d.unanswered(ifname, hop, err)
	}
	return p, nil
}

// unanswered is the error of a wait for a neighbour on an interface that ended with err.
func (d *Device) unanswered(ifname string, hop netip.Addr, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("nic: neighbour %s on %s: %w within %v; is it up, and in the same network?",
			hop, ifname, route.ErrNeighbour, d.opts.ResolveTimeout)
	}
	return fmt.Errorf("nic: %w", err)
}

// GIDs returns the addresses of the interface by GID index; one that is not valid is
// a free index.
func (d *Device) GIDs() []netip.Addr {
	if d.routes == nil {
		return slices.Clone(loopbackGIDs)
	}
	return d.routes.GIDs()
}

// Link is the state of the interface.
type Link = route.Link

// Link returns the state of the interface.
func (d *Device) Link() Link {
	if d.routes == nil {
		return Link{Up: true, Carrier: true, MTU: loopbackMTU}
	}
	return d.routes.Link()
}

// Limits implements verbs.Device.
func (d *Device) Limits() verbs.Limits {
	return verbs.Limits{CQ: MaxCQ, WR: MaxWR, SGE: MaxSGE, Inline: MaxInline, MaxRdAtomic: qp.MaxRdAtomic}
}

// Port implements verbs.Device.
func (d *Device) Port() (verbs.Port, error) {
	if err := d.alive(); err != nil {
		return verbs.Port{}, err
	}
	l := d.Link()
	return verbs.Port{Active: l.Up && l.Carrier, MTU: l.MTU, MAC: l.MAC, GIDs: d.GIDs()}, nil
}

// Mode returns how packets get from the driver to the engine. A loopback device has none.
func (d *Device) Mode() (m xsk.Mode) {
	if len(d.socks) != 0 {
		m = d.socks[0].Mode()
	}
	return m
}

func (d *Device) routeEvent(e route.Event) {
	switch {
	case e.Kind == route.GIDAdded || e.Kind == route.GIDRemoved:
		d.event(verbs.Event{Type: verbs.EventGIDChange, Addr: e.Addr})
	case e.Link.Gone:
		d.gone.Store(true)
		if e := d.started.Load(); e != nil {
			e.driver.Call()
		}
	case e.Link.Up && e.Link.Carrier:
		d.event(verbs.Event{Type: verbs.EventPortActive})
		if e := d.started.Load(); e != nil && d.linkLost {
			e.post(e.core.LinkUp)
		}
		d.linkLost = false
	default:
		d.linkLost = true
		d.event(verbs.Event{Type: verbs.EventPortDown})
	}
}

// Close ends the device: what was posted and has not completed is flushed, its queue
// pair numbers go back to the kernel stack. Waiting goroutines return.
func (d *Device) Close() error {
	d.closeCM()
	d.eng.stop.Store(true)
	d.eng.driver.Call()
	<-d.done
	return d.release()
}

// ended is called by the engine's goroutine when its thread is done.
func (d *Device) ended(why error) {
	d.err.CompareAndSwap(nil, &why)
	if !errors.Is(why, verbs.ErrClosed) {
		d.event(verbs.Event{Type: verbs.EventDeviceFatal, Err: why})
	}
	close(d.done)
}

// release gives everything back.
func (d *Device) release() error {
	var errs []error
	d.once.Do(func() {
		closed := verbs.ErrClosed
		d.err.Store(&closed)
		if d.routes != nil {
			errs = append(errs, d.routes.Close())
		}
		errs = append(errs, d.dataplane.Close())
		for _, p := range d.otherRails {
			errs = append(errs, p.release()...)
		}
		if d.eng != nil {
			d.eng.driver.Close()
		}
		if d.socks != nil {
			errs = append(errs, d.socks.Close())
		}
		d.eventMu.Lock()
		d.eventsClosed = true
		close(d.events)
		d.eventMu.Unlock()
	})
	return errors.Join(errs...)
}
