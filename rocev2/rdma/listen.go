// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Listener accepts connections at a port. Any goroutine may call its methods.
type Listener struct {
	host    *host
	o       options
	addr    Addr
	place   place
	service mad.ServiceID

	mu      sync.Mutex
	waiting []*Request    // requests that Next has not taken
	more    chan struct{} // signalled when waiting has grown
	done    chan struct{} // closed: err is set
	err     error
}

// Listen accepts connections at "host:port" or ":port". With a host, which is an address of the device,
// requests to other addresses of the device are rejected. With a loopback address, as of localhost, only
// programs on this device can connect. A port has one listener on a device. The options are for the accepted
// connections too.
func Listen(ctx context.Context, dev verbs.Device, address string, list ...Option) (*Listener, error) {
	l, err := within(ctx, func() (*Listener, error) { return listen(ctx, dev, address, list) }, closeLate[*Listener])
	if err != nil {
		return nil, &Error{Op: "listen " + address, Err: err}
	}
	return l, nil
}

func listen(ctx context.Context, dev verbs.Device, address string, list []Option) (*Listener, error) {
	o, err := complete(options{}, list)
	if err == nil {
		err = o.checkListen()
	}
	if err != nil {
		return nil, err
	}
	at, err := listenAddr(ctx, address)
	if err != nil {
		return nil, err
	}
	where, err := findPlace(dev, at)
	if err != nil {
		return nil, err
	}
	h, err := hostOf(dev)
	if err == nil {
		err = ctx.Err() // the device may have answered late
	}
	if err != nil {
		return nil, err
	}
	l := &Listener{host: h, o: o, place: where, more: make(chan struct{}, 1), done: make(chan struct{})}
	for tries := 0; ; tries++ {
		port := where.port
		if port == 0 {
			port = ephemeralPort()
		}
		l.addr, l.service = Addr{netip.AddrPortFrom(where.addr, port)}, mad.IPServiceID(mad.PortTCP, port)
		err := h.listen(l.service, o.backlog, l)
		if err == nil {
			return l, nil
		}
		if where.port != 0 || tries == maxPortTries || !errors.Is(err, cm.ErrInUse) {
			return nil, err
		}
	}
}

// maxPortTries is how many ports are tried for port 0.
const maxPortTries = 100

// listenAddr is lookup for an address that may have no host.
func listenAddr(ctx context.Context, address string) ([]netip.AddrPort, error) {
	name, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if name != "" {
		return lookup(ctx, address)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port %q: give a number from 0 to 65535; 0 is any free one", service)
	}
	return []netip.AddrPort{netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port))}, nil
}

// Addr returns the address of the listener.
func (l *Listener) Addr() net.Addr { return l.addr }

// Close ends the listener: requests that wait are rejected, and Accept returns an error that wraps
// net.ErrClosed. Accepted connections stay.
func (l *Listener) Close() error {
	if !l.end(net.ErrClosed) {
		return wrap("close", l.addr, net.ErrClosed)
	}
	l.host.unlisten(l.service)
	return wrap("close", l.addr, Bounded(func() error {
		err := l.host.session.Unlisten(l.service)
		for _, r := range l.takeAll() {
			_ = l.host.session.Reject(r.e.ID, []byte("the listener was closed"))
		}
		return err
	}))
}

func (l *Listener) end(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.err = err
	close(l.done)
	return true
}

func (l *Listener) takeAll() []*Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.waiting
	l.waiting = nil
	return list
}

// request implements requestQueue.
func (l *Listener) request(e cm.Event) handler {
	if e.Kind != cm.Request || e.Path.Type != verbs.RC || !l.place.takes(&e) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil
	}
	r := &Request{l: l, e: e}
	l.waiting = append(l.waiting, r)
	l.signal()
	return r
}

// signal wakes one goroutine; the listener is locked.
func (l *Listener) signal() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *Listener) deviceEnded(why error) { l.end(why) }

// Next waits for the next request, which the application accepts or rejects within two minutes.
func (l *Listener) Next(ctx context.Context) (*Request, error) {
	for {
		l.mu.Lock()
		if len(l.waiting) > 0 {
			r := l.waiting[0]
			l.waiting = l.waiting[1:]
			if len(l.waiting) > 0 {
				l.signal() // for another goroutine
			}
			l.mu.Unlock()
			return r, nil
		}
		err := l.err
		l.mu.Unlock()
		if err != nil {
			return nil, wrap("accept", l.addr, err)
		}
		select {
		case <-l.more:
		case <-l.done:
		case <-ctx.Done():
			return nil, wrap("accept", l.addr, ctx.Err())
		}
	}
}

// Accept waits for the next request and accepts it. Requests whose peer has given up are skipped,
// and those that fail for another reason are rejected.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	for {
		r, err := l.Next(ctx)
		if err != nil {
			return nil, err
		}
		c, err := r.Accept(ctx)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
}

// Request is the request of a peer for a connection.
type Request struct {
	l *Listener
	e cm.Event
}

// event implements handler: the peer has given up, or nobody has answered.
func (r *Request) event(e cm.Event) {
	if e.Kind != cm.Failed && e.Kind != cm.Gone {
		return
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.l.waiting = slices.DeleteFunc(r.l.waiting, func(x *Request) bool { return x == r })
}

// Private returns the private data of the request, padded with zeros.
func (r *Request) Private() []byte { return r.l.o.applicationPart(r.e.Private, seal.OfferLen) }

// RemoteAddr returns the address of the peer.
func (r *Request) RemoteAddr() net.Addr { return r.remote() }

func (r *Request) remote() Addr { return Addr{netip.AddrPortFrom(r.e.Path.Remote.Addr, r.e.SrcPort)} }

// Reject rejects the request. The peer's Dial fails with a *RejectedError that has the reason as its
// private data: text or bytes, up to 148.
func (r *Request) Reject(reason []byte) error {
	return wrap("reject", r.remote(), Bounded(func() error { return r.l.host.session.Reject(r.e.ID, reason) }))
}

// Accept accepts the request. The options are those of Listen with changes. The connection can
// receive at once; a Send waits until the peer is ready, and fails if it has given up.
func (r *Request) Accept(ctx context.Context, list ...Option) (*Conn, error) {
	c, err := within(ctx, func() (*Conn, error) { return r.accept(ctx, list) }, closeLate[*Conn])
	if err != nil {
		return nil, wrap("accept", r.remote(), err)
	}
	return c, nil
}

func (r *Request) accept(ctx context.Context, list []Option) (*Conn, error) {
	c, a, err := r.newConn(ctx, list)
	if err != nil {
		return nil, r.refuse(err)
	}
	return c, r.connect(ctx, c, a)
}

// acceptance is what the acceptance of a request needs.
type acceptance struct {
	qp      verbs.QP
	path    cm.Path
	private []byte // for the peer
}

// newConn returns a connection for the request. It has the events of the request from then on.
func (r *Request) newConn(ctx context.Context, list []Option) (*Conn, *acceptance, error) {
	o, err := complete(r.l.o, list)
	if err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	h := r.l.host
	c, err := newConn(h, o)
	if err != nil {
		return nil, nil, err
	}
	path := r.path(o, c.qp)
	c.id, c.private = r.e.ID, o.applicationPart(r.e.Private, seal.OfferLen)
	c.local, c.remote = Addr{netip.AddrPortFrom(path.Local.Addr, r.l.addr.Port())}, r.remote()
	private, err := r.answer(o, c.qp, path.Remote.PSN)
	if err != nil {
		return nil, nil, errors.Join(err, c.destroy())
	}
	if err := h.takeOver(c.id, c); err != nil {
		return nil, nil, errors.Join(err, c.destroy())
	}
	return c, &acceptance{c.qp, path, private}, nil
}

// refuse rejects the request because of an error, which it returns.
func (r *Request) refuse(err error) error {
	_ = r.l.host.session.Reject(r.e.ID, rejectText(err)) // if it is still there
	return err
}

// connect brings the queue pair to RTS and accepts the request, whose events go to d. After an error the request is
// rejected and d is closed.
func (r *Request) connect(ctx context.Context, d attempted, a *acceptance) error {
	h := r.l.host
	err := waitFor(ctx, func() error { return connectAccept(h.session, r.e.ID, a.qp, a.path, a.private) })
	if err != nil {
		err = h.rejectAttempt(r.e.ID, rejectText(err), d, err)
		_ = d.Close() // the device may have accepted, or may do so later
	}
	return err
}

// path returns the path of the request to a queue pair of this end.
func (r *Request) path(o options, qp verbs.QP) cm.Path {
	p := r.e.Path
	limit := uint8(min(r.l.host.dev.Limits().MaxRdAtomic, 255))
	p.Attr.MaxRdAtomic, p.Attr.MaxDestRdAtomic = min(p.Attr.MaxRdAtomic, limit), min(p.Attr.MaxDestRdAtomic, limit)
	if o.attr != nil {
		o.attr(&p.Attr)
	}
	p.Local.QPN, p.Remote.PSN = qp.QPN(), randomPSN()
	return p
}

// errGivenUp: a request is gone when it is accepted.
var errGivenUp = errors.New("the peer has given up, or the request was answered before")
