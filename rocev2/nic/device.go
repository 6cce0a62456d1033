// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/nic/qpn"
	"github.com/softroce/softroce-xdp/rocev2/nic/route"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

// Errors that callers may distinguish.
var (
	ErrClosed    = errors.New("nic: the device was closed")
	ErrGone      = errors.New("nic: the interface is gone")
	ErrBusy      = errors.New("still in use")
	ErrDestroyed = errors.New("was destroyed")
	ErrTooMany   = qpn.ErrTooMany // queue pairs of one device
)

// Options of a device. Zero values mean the defaults.
type Options struct {
	Interface string // in the network namespace of the calling thread

	// Spin is how long the engine looks for work before it sleeps: latency against
	// CPU time. Default 20 us; negative means never.
	Spin time.Duration

	// ResolveTimeout is how long Modify and CreateAH wait for a neighbour; default 4 s,
	// as the kernel gives up after 3.
	ResolveTimeout time.Duration

	Mode     xsk.Mode      // copy or zero-copy; default: what the driver can
	RxFrames int           // per receive queue; default 4096
	TxFrames int           // per queue; default 512
	BusyPoll time.Duration // see xsk.Config
	// PreCredit has the engine grant pre-credit to peers, and send the first round trip
	// of large messages on theirs (S5). Peers without it get plain RoCEv2.
	PreCredit bool
	// LargeDSCP is for large flows' data to other engines, 1 to 63: switches that have two
	// queues can serve all other packets first. 0: it is that of the queue pair. Needs PreCredit.
	LargeDSCP uint8

	Keys int // memory regions and windows at once, see mr.Config
}

// Device is a RoCEv2 NIC in this process, on one interface. Its methods and those of
// what it makes may be called by any goroutine.
type Device struct {
	opts      Options
	dataplane Dataplane
	routes    *route.Table
	socks     xsk.Set
	mem       *mr.Table
	eng       *engine
	mtu       int // of the interface when the device was opened: what its frames have room for

	gone    atomic.Bool            // the interface is
	started atomic.Pointer[engine] // eng, for the goroutine that follows the interface

	err  atomic.Pointer[error] // why it is of no use
	done chan struct{}         // closed when it ended
	once sync.Once

	eventMu      sync.Mutex
	events       chan Event
	eventsClosed bool
	eventsLost   atomic.Uint64
}

// Open makes a device on an interface that the data plane is attached to. The device
// owns w from here on and closes it, also if Open fails.
func Open(w Dataplane, o Options) (_ *Device, err error) {
	d := &Device{opts: o.withDefaults(), dataplane: w, done: make(chan struct{}), events: make(chan Event, eventBacklog)}
	defer func() {
		if err != nil {
			d.release()
		}
	}()
	if err := o.check(); err != nil {
		return nil, err
	}
	if d.mem, err = mr.New(mr.Config{Keys: o.Keys}); err != nil {
		return nil, err
	}
	if d.routes, err = route.Open(o.Interface, route.Options{ResolveTimeout: d.opts.ResolveTimeout, OnEvent: d.routeEvent}); err != nil {
		return nil, err
	}
	if err := d.openSockets(); err != nil {
		return nil, err
	}
	if d.eng, err = newEngine(d); err != nil {
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
		d.eng.hooks = newCredits(&d.opts, d.eng.config.LinkRate)
	}
	d.eng.start()
	return d, nil
}

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
	i, err := net.InterfaceByName(d.opts.Interface)
	if err != nil {
		return 0, 0, fmt.Errorf("nic: interface %s: %w", d.opts.Interface, err)
	}
	return i.Index, i.MTU, nil
}

// maxFrame is the longest frame of an MTU.
func maxFrame(mtu int) int { return etherLen + mtu }

func (d *Device) openSockets() (err error) {
	index, mtu, err := d.link()
	if err != nil {
		return err
	}
	d.mtu = mtu
	const frameSize = 4096
	c := xsk.Config{
		Ifindex: index, FrameSize: frameSize, RxFrames: d.opts.RxFrames, TxFrames: d.opts.TxFrames,
		TxPacket: maxFrame(mtu), Mode: d.opts.Mode, BusyPoll: d.opts.BusyPoll,
	}
	c.SG = maxFrame(mtu)+8 > frameSize-256
	d.socks, err = xsk.OpenAll(c)
	return err
}

// alive returns nil, or why the device is of no use any more.
func (d *Device) alive() error {
	if err := d.err.Load(); err != nil {
		return *err
	}
	return nil
}

// do runs f in the engine's thread.
func (d *Device) do(f func() error) error {
	var err error
	if !d.eng.do(func() { err = f() }) {
		return d.alive()
	}
	return err
}

// resolve finds the route to a peer and waits for its neighbour. A source that the kernel
// chose is kept: the peer accepts packets from that address only, and the kernel may choose
// another one when addresses or routes have changed.
func (d *Device) resolve(src, dst netip.Addr) (*route.Path, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.opts.ResolveTimeout)
	defer cancel()
	if !src.IsValid() {
		p, err := d.routes.Resolve(dst)
		if p, err = d.usable(ctx, p, err); err != nil {
			return nil, err
		}
		defer p.Release()
		src = p.Current().Src
	}
	p, err := d.routes.ResolveFrom(src, dst)
	return d.usable(ctx, p, err)
}

// usable waits for the neighbour of a path that was resolved.
func (d *Device) usable(ctx context.Context, p *route.Path, err error) (*route.Path, error) {
	if err != nil {
		return nil, fmt.Errorf("nic: %w", err)
	}
	if _, err := p.Wait(ctx); err != nil {
		hop := p.Current().NextHop
		p.Release()
		return nil, d.unanswered(hop, err)
	}
	return p, nil
}

// unanswered is the error of a wait for a neighbour that ended with err.
func (d *Device) unanswered(hop netip.Addr, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("nic: neighbour %s on %s: %w within %v; is it up, and in the same network?",
			hop, d.opts.Interface, route.ErrNeighbour, d.opts.ResolveTimeout)
	}
	return fmt.Errorf("nic: %w", err)
}

// GIDs returns the addresses of the interface by GID index; one that is not valid is
// a free index.
func (d *Device) GIDs() []netip.Addr { return d.routes.GIDs() }

// Link returns the state of the interface.
func (d *Device) Link() route.Link { return d.routes.Link() }

// Mode returns how packets get from the driver to the engine.
func (d *Device) Mode() xsk.Mode { return d.socks[0].Mode() }

func (d *Device) routeEvent(e route.Event) {
	switch {
	case e.Kind == route.GIDAdded || e.Kind == route.GIDRemoved:
		d.event(Event{Type: EventGIDChange, Addr: e.Addr})
	case e.Link.Gone:
		d.gone.Store(true)
		if e := d.started.Load(); e != nil {
			e.driver.Call()
		}
	case e.Link.Up && e.Link.Carrier:
		d.event(Event{Type: EventPortActive})
	default:
		d.event(Event{Type: EventPortDown})
	}
}

// Close ends the device: what was posted and has not completed is flushed, its queue
// pair numbers go back to the kernel stack. Waiting goroutines return.
func (d *Device) Close() error {
	d.eng.stop.Store(true)
	d.eng.driver.Call()
	<-d.done
	return d.release()
}

// ended is called by the engine's goroutine when its thread is done.
func (d *Device) ended(why error) {
	d.err.CompareAndSwap(nil, &why)
	if !errors.Is(why, ErrClosed) {
		d.event(Event{Type: EventDeviceFatal, Err: why})
	}
	close(d.done)
}

// release gives everything back.
func (d *Device) release() error {
	var errs []error
	d.once.Do(func() {
		closed := ErrClosed
		d.err.Store(&closed)
		if d.routes != nil {
			errs = append(errs, d.routes.Close())
		}
		errs = append(errs, d.dataplane.Close())
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
